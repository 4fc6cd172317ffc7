package localsocket

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnyPath(t *testing.T) {
	for name, dir := range map[string]string{"short": "s", "long": strings.Repeat("long", 40)} {
		t.Run(name, func(t *testing.T) {
			root, err := os.MkdirTemp("", "s")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(root) })
			path := filepath.Join(root, dir, "x.sock")
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second replaces what the first has left
				ln, err := Listen(t.Context(), path)
				if err != nil {
					t.Fatal(err)
				}
				info, err := os.Stat(path)
				if err != nil || info.Mode().Perm() != 0o600 {
					t.Fatalf("%v %v", info.Mode(), err)
				}
				go func() {
					if c, err := ln.Accept(); err == nil {
						_, _ = c.Write([]byte("x"))
						_ = c.Close()
					}
				}()
				c, err := Dial(t.Context(), path)
				if err != nil {
					t.Fatal(err)
				}
				if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
					t.Fatal(n, err)
				}
				_ = c.Close()
				if err := ln.Close(); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(path); !os.IsNotExist(err) {
					t.Fatalf("the socket stays: %v", err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil { // what a crash leaves
					t.Fatal(err)
				}
			}
		})
	}
}

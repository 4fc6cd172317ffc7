package redisconn

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/filter/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// freePort is free now; nothing else of this package takes it.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// startRedis runs a real server until the test ends.
func startRedis(t *testing.T, port string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("redis-server", append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir()}, args...)...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var reader sync.WaitGroup
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		reader.Wait()
		_ = cmd.Wait()
	})
	ready := make(chan struct{})
	reader.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.Contains(lines.Text(), "Ready to accept connections") {
				close(ready)
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
	})
	select {
	case <-ready:
	case <-time.After(10 * time.Second):
		t.Fatal("redis does not start")
	}
	return cmd
}

func redisCLI(t *testing.T, port string, args ...string) string {
	t.Helper()
	out, err := exec.Command("redis-cli", append([]string{"-p", port}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func opened(t *testing.T, o Options) *client {
	t.Helper()
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*client)
}

func settings(url string) contract.RedisSettings { return contract.RedisSettings{URL: url} }

// respond runs a server that says what answer returns, for each piece it reads.
func respond(t *testing.T, answer func(question string) string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				for piece := make([]byte, 4096); ; {
					n, err := conn.Read(piece)
					if err != nil {
						return
					}
					if _, err := io.WriteString(conn, answer(string(piece[:n]))); err != nil {
						return
					}
				}
			})
		}
	})
	return l.Addr().String()
}

// until waits for a state that some other process brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not in time: %s", what)
		}
	}
}

func writeFile(t *testing.T, path, format string, args ...any) {
	t.Helper()
	if err := os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o600); err != nil {
		t.Fatal(err)
	}
}

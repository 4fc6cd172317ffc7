package main

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/cli"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestReaderHasLeft: `meshgate status | head -1` does not report the broken pipe. Other
// broken pipes, such as a connection to the control plane, are reported.
func TestReaderHasLeft(t *testing.T) {
	for _, test := range []struct {
		name string
		says string
	}{
		{os.Stdout.Name(), ""},
		{"/dev/other", "printing: write /dev/other: broken pipe"},
	} {
		var ends [2]int
		if err := syscall.Pipe(ends[:]); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Close(ends[0]); err != nil {
			t.Fatal(err)
		}
		w := os.NewFile(uintptr(ends[1]), test.name)
		_, err := w.WriteString("a line")
		_ = w.Close()
		root := rootCommand()
		root.PersistentPreRun(root, nil)
		if code, text := verdict(root, fmt.Errorf("printing: %w", err)); code != cli.ExitFailed || text != test.says {
			t.Errorf("%s: exit code %d, %q; want %d, %q", test.name, code, text, cli.ExitFailed, test.says)
		}
	}
}

package agent

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/enrol"
)

// TestSocketsOfALongStateDirectory: sockets can be opened even if their paths below the
// state directory would be longer than the kernel allows.
func TestSocketsOfALongStateDirectory(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", shortTemp(t))
	long := filepath.Join(t.TempDir(), strings.Repeat("long/", 40))
	seen := map[string]bool{}
	for _, name := range []string{"default.web-1", "default.web-2"} {
		d, err := runDirOf(long, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.make(); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{d.relay, d.admin} {
			if len(path) > enrol.MaxSocketPath || seen[path] {
				t.Errorf("%s is too long or belongs to another proxy", path)
			}
			seen[path] = true
			ln, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ln.Close() }()
		}
		if info, err := os.Stat(d.sockets); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", d.sockets, info.Mode(), err)
		}
		if again, _ := runDirOf(long, name); again.relay != d.relay {
			t.Errorf("the next agent uses %s, the last one %s", again.relay, d.relay)
		}
	}
}

// TestSocketsStayInAShortStateDirectory: the usual place is kept.
func TestSocketsStayInAShortStateDirectory(t *testing.T) {
	d, err := runDirOf("/var/lib/meshgate", "default.web-1")
	if err != nil || d.relay != "/var/lib/meshgate/run/default.web-1/relay.sock" {
		t.Errorf("%s, %v", d.relay, err)
	}
}

// TestSocketsInAForeignDirectoryAreRefused simulates another user who was first, as far as
// one user can: with a symbolic link.
func TestSocketsInAForeignDirectoryAreRefused(t *testing.T) {
	runtime := shortTemp(t)
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	if err := os.Symlink(t.TempDir(), filepath.Join(runtime, "meshgate")); err != nil {
		t.Fatal(err)
	}
	d, err := runDirOf(filepath.Join(t.TempDir(), strings.Repeat("long/", 40)), "default.web")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.make(); err == nil || !strings.Contains(err.Error(), "choose a shorter state directory") {
		t.Errorf("error = %v", err)
	}
}

// shortTemp returns a temporary directory with a short path, whatever the test's name.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "mg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

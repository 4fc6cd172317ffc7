package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/meshgate/meshgate/controlplane/enrol"
)

const (
	relaySocket = "relay.sock"
	adminSocket = "admin.sock"
	// socketSuffix is what a program may append while it replaces a socket.
	socketSuffix = len(".new")
)

// socketDir returns the folder of a proxy's sockets. That is its run directory,
// unless paths in it would be longer than a socket's may be: then it is a folder
// of the user's runtime directory, whose name follows from the run directory.
// So an Envoy that has outlived its agent and the agent after it use the same.
func socketDir(root string) string {
	if len(filepath.Join(root, relaySocket))+socketSuffix <= enrol.MaxSocketPath {
		return root
	}
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(runtimeDir(), hex.EncodeToString(sum[:8]))
}

// runtimeDir is where this user's processes keep sockets.
func runtimeDir() string {
	if d := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) && len(d) < enrol.MaxSocketPath/2 {
		return filepath.Join(d, "meshgate")
	}
	if os.Geteuid() == 0 {
		return "/run/meshgate"
	}
	return fmt.Sprintf("/tmp/meshgate-%d", os.Geteuid())
}

// makePrivate makes a folder for the sockets of one proxy. The folders above it
// may lie in a directory that everybody can write to, so each must be a real
// folder of this user that nobody else can enter: otherwise another user could
// have made it first and would be given the proxy's configuration.
func makePrivate(dir string) error {
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Mkdir(d, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("directory for sockets: %w", err)
		}
		info, err := os.Lstat(d)
		if err != nil {
			return fmt.Errorf("directory for sockets: %w", err)
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !info.IsDir() || !ok || int(owner.Uid) != os.Geteuid() {
			return fmt.Errorf("directory for sockets: %s belongs to somebody else; remove it, or choose a shorter state directory", d)
		}
		if info.Mode().Perm() != 0o700 {
			if err := os.Chmod(d, 0o700); err != nil { //nolint:gosec // a directory needs the x
				return fmt.Errorf("directory for sockets: %w", err)
			}
		}
	}
	return nil
}

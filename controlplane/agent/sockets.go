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
	authzSocket = "authz.sock"
	logsSocket  = "logs.sock"
	// metricsSocket is replaced in place, without a suffix.
	metricsSocket = "metrics.sock"
	// socketSuffix is the length of the suffix that a program may append while it replaces
	// a socket.
	socketSuffix = len(".new")
)

// socketDir returns the directory of a proxy's sockets. It is the run directory, unless
// socket paths there would be too long. Then it is a directory in the user's runtime
// directory, whose name is derived from the run directory. So an Envoy that has outlived
// its agent, and the next agent, use the same sockets.
func socketDir(root string) string {
	if len(filepath.Join(root, relaySocket))+socketSuffix <= enrol.MaxSocketPath {
		return root
	}
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(runtimeDir(), hex.EncodeToString(sum[:8]))
}

// runtimeDir returns the directory in which this user's processes keep sockets.
func runtimeDir() string {
	if d := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) && len(d) < enrol.MaxSocketPath/2 {
		return filepath.Join(d, "meshgate")
	}
	if os.Geteuid() == 0 {
		return "/run/meshgate"
	}
	return fmt.Sprintf("/tmp/meshgate-%d", os.Geteuid())
}

// makePrivate creates a directory for the sockets of one proxy. The directories above it
// may be in one that all users can write to. So each must be a real directory of this user
// that nobody else can enter. Otherwise another user could create it first and would be
// given the proxy's configuration.
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

package assembly

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/filelock"
	"github.com/meshgate/meshgate/controlplane/version"
)

// listen opens a port. The error names the setting, because "address in use" alone does not
// tell the operator what to change.
func listen(setting, address string, port int) (net.Listener, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return nil, fault.NotBegun(portError(setting, address, port, err))
	}
	return ln, nil
}

func portError(setting, address string, port int, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return portInUse(fmt.Sprintf("port %d on %s is in use by another process; set %s (environment %s) to a free one",
			port, address, setting, config.EnvName(setting)))
	}
	return fmt.Errorf("%s: %w", setting, err)
}

// portInUse is the error of a port that another process has, in words for operators.
type portInUse string

func (e portInUse) Error() string { return string(e) }

// Unwrap returns the error of the system.
func (portInUse) Unwrap() error { return syscall.EADDRINUSE }

// checkFree makes sure that Envoy will be able to open a port. Envoy itself would silently
// share the port with the process that has it.
func checkFree(setting, address string, port int) error {
	ln, err := listen(setting, address, port)
	if err != nil {
		return err
	}
	return ln.Close()
}

// ClaimStateDir makes the state directory, checks that it is usable, and locks it against
// other meshgate processes as long as the returned file is open.
func ClaimStateDir(dir string) (*os.File, error) {
	return claimStateDir(dir, func(f *os.File) error {
		err := filelock.Try(f)
		if errors.Is(err, filelock.ErrHeld) {
			return errors.New("it is in use by another meshgate")
		}
		return err
	})
}

// claimStateDir is [ClaimStateDir] with a function that locks the directory, or closes it if that fails.
func claimStateDir(dir string, lock func(*os.File) error) (*os.File, error) {
	unusable := func(err error) error {
		return fault.NotBegun(fmt.Errorf("state directory %s cannot be used: %w; set stateDir (environment %s)", dir, err, config.EnvName("stateDir")))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unusable(err)
	}
	probe, err := os.CreateTemp(dir, ".probe-")
	if err != nil {
		return nil, unusable(err)
	}
	_ = probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return nil, unusable(err)
	}
	f, err := os.Open(dir) //nolint:gosec // the operator names the directory
	if err != nil {
		return nil, unusable(err)
	}
	if err := lock(f); err != nil {
		return nil, unusable(err)
	}
	return f, nil
}

// FindEnvoy returns the path of a usable Envoy and its version line.
func FindEnvoy(configured string) (path, line string, err error) {
	candidates := []string{configured, os.Getenv("ENVOY_PATH")}
	if configured == "" && candidates[1] == "" {
		if exe, err := os.Executable(); err == nil {
			dir := filepath.Dir(exe)
			candidates = append(candidates, filepath.Join(dir, "envoy"), filepath.Join(dir, "..", ".tools", "envoy"))
		}
		if p, err := exec.LookPath("envoy"); err == nil {
			candidates = append(candidates, p)
		}
	}
	for _, c := range candidates {
		if c == "" {
			continue
		}
		out, err := exec.Command(c, "--version").Output() //nolint:gosec // the operator names the binary
		if err == nil {
			return c, strings.TrimSpace(string(out)), nil
		}
		if c == configured || c == os.Getenv("ENVOY_PATH") {
			return "", "", fault.NotBegun(fmt.Errorf("cannot run Envoy at %s: %w", c, err))
		}
	}
	return "", "", fault.NotBegun(errors.New("no Envoy found: run 'make build', or set envoy.path (environment ENVOY_PATH) to an Envoy " + version.Envoy))
}

// FindModule returns the directory of the filter's library.
func FindModule(configured, file string) (string, error) {
	dirs := []string{configured}
	if exe, err := os.Executable(); configured == "" && err == nil {
		dirs = []string{filepath.Dir(exe)}
	}
	for _, d := range dirs {
		if strings.HasSuffix(d, ".so") {
			d = filepath.Dir(d)
		}
		if _, err := os.Stat(filepath.Join(d, file)); err == nil {
			return filepath.Abs(d)
		}
	}
	return "", fault.NotBegun(fmt.Errorf("%s not found in %s: run 'make build', or set modulePath (environment MESHGATE_MODULE_PATH)", file, strings.Join(dirs, ", ")))
}

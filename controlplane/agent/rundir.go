package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/durable"
)

// runDir holds the files of one node. Only the owner may read them, because they contain
// tokens and keys.
type runDir struct {
	path, sockets, bootstrap, password, settings, pid, processes, relay, admin, authz, logs, metrics, adminPort, cache, roots, mode, trusting, token string
}

// runDirOf returns the paths of a node's files.
func runDirOf(stateDir, name string) (*runDir, error) {
	root, err := filepath.Abs(filepath.Join(stateDir, "run", name))
	if err != nil {
		return nil, err
	}
	in := func(file string) string { return filepath.Join(root, file) }
	sockets := socketDir(root)
	return &runDir{
		path: root, sockets: sockets, bootstrap: in("bootstrap.yaml"), password: in("relay.password"), settings: in("settings.json"), pid: in("envoy.pid"), processes: in("processes.json"),
		relay: filepath.Join(sockets, relaySocket), admin: filepath.Join(sockets, adminSocket), authz: filepath.Join(sockets, authzSocket), logs: filepath.Join(sockets, logsSocket),
		metrics:   filepath.Join(sockets, metricsSocket),
		adminPort: in("admin.port"), cache: in("xds.cache"), roots: in("roots.pem"), mode: in("filter.mode"), trusting: in("trusting.ports"), token: in("node.token"),
	}, nil
}

func (d *runDir) make() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	if err := os.Chmod(d.path, 0o700); err != nil { //nolint:gosec // a directory needs the x
		return fmt.Errorf("run directory: %w", err)
	}
	if d.sockets == d.path {
		return nil
	}
	return makePrivate(d.sockets)
}

// adminClient returns a client for the admin interface of the Envoy that was started last:
// on the port that is stored here, or on its socket.
func (d *runDir) adminClient() *Admin {
	if text, err := os.ReadFile(d.adminPort); err == nil {
		if port, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return NewPortAdmin(port)
		}
	}
	return NewAdmin(d.admin)
}

// noteAdmin stores where the admin interface will be. 0 means the socket.
func (d *runDir) noteAdmin(port int) error {
	if port != 0 {
		return replace(d.adminPort, []byte(strconv.Itoa(port)))
	}
	if err := os.Remove(d.adminPort); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("run directory: %w", err)
	}
	return nil
}

// noteMode stores how the proxy has the filter. What the control plane said for another mode is
// removed: Envoy would refuse it, and a start without the control plane would serve nobody.
func (d *runDir) noteMode(m contract.Mode) error {
	text, err := os.ReadFile(d.mode)
	was := contract.ModeModule
	if err == nil {
		was = contract.Mode(text)
	}
	if was == m {
		return nil
	}
	if err := os.Remove(d.cache); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("run directory: %w", err)
	}
	return replace(d.mode, []byte(m))
}

// enrolled reports whether an earlier run left everything that a start needs.
func (d *runDir) enrolled() bool {
	for _, f := range []string{d.bootstrap, d.settings, d.cache} {
		if _, err := os.Stat(f); err != nil {
			return false
		}
	}
	return true
}

// write makes bootstrap and settings from an enrolment. The filter itself stores beside
// them what it is told about Redis.
func (d *runDir) write(a *Agent, answer *enrol.Answer) error {
	settings := contract.Settings{
		Cache: a.Cache,
		ControlPlane: &contract.ControlPlaneSettings{
			Address: a.host, CAFile: a.dir.roots, TokenFile: absolute(a.TokenFile), Node: answer.Node,
		},
	}
	data, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return err
	}
	if err := replace(d.settings, data); err != nil {
		return err
	}
	if err := a.lend(answer.Trusting); err != nil {
		return err
	}
	text, err := a.proxy().bootstrap(answer)
	if err != nil {
		return err
	}
	return replace(d.bootstrap, text)
}

// removeTrust removes what a filter was told to believe. The removal survives a crash of
// the machine.
func (d *runDir) removeTrust() error {
	if err := os.Remove(filepath.Join(d.path, contract.TrustFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("run directory: %w", err)
	}
	return inRunDir(durable.SyncDir(d.path))
}

// inRunDir adds the origin to an error.
func inRunDir(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("run directory: %w", err)
}

// replace writes a file in one step, durably. Readers see the old or the new content, never
// a part of it. After a crash of the machine the file is neither missing nor old, because a
// node may have to start from these files while the control plane is away. A file that
// already has the content is not written, so that a full disk does not prevent a start.
func replace(path string, data []byte) error {
	if info, err := os.Lstat(path); err == nil && info.Mode() == 0o600 {
		if had, err := os.ReadFile(path); err == nil && bytes.Equal(had, data) { //nolint:gosec // below the state directory
			return nil
		}
	}
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // below the state directory
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	err = f.Chmod(0o600) // a leftover file may have any mode
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(tmp) // an incomplete file would take space
		return fmt.Errorf("run directory: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	return inRunDir(durable.SyncDir(filepath.Dir(path)))
}

func absolute(path string) string {
	if p, err := filepath.Abs(path); err == nil {
		return p
	}
	return path
}

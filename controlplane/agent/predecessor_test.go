package agent

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// start runs this binary in a role; the process ends with the test.
func start(t *testing.T, role string, args ...string) (cmd *exec.Cmd, exited <-chan error) {
	t.Helper()
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		done <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = in.(io.Closer).Close()
		_ = cmd.Process.Kill()
		<-ended
	})
	return cmd, done
}

func writePID(t *testing.T, d *runDir, text string) {
	t.Helper()
	if err := os.WriteFile(d.pid, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newRunDir(t *testing.T) (stateDir string, d *runDir) {
	t.Helper()
	stateDir = shortDir(t)
	d, err := runDirOf(stateDir, "gw")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.make(); err != nil {
		t.Fatal(err)
	}
	return stateDir, d
}

// TestEndPredecessor stops what runs with this instance's bootstrap file.
func TestEndPredecessor(t *testing.T) {
	stateDir, d := newRunDir(t)
	cmd, exited := start(t, "sleeper", "-c", d.bootstrap, "--disable-hot-restart")
	writePID(t, d, strconv.Itoa(cmd.Process.Pid)+"\n")
	r := newRecorder()
	if err := EndPredecessor(t.Context(), stateDir, "gw", time.Second, slog.New(r)); err != nil {
		t.Fatal(err)
	}
	r.wait(t, "an envoy of a supervisor that died is drained and stopped")
	select {
	case <-exited:
		if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGTERM {
			t.Errorf("ended by %v", cmd.ProcessState)
		}
	case <-time.After(10 * time.Second):
		t.Error("it still runs")
	}
}

// TestEndPredecessorForeign leaves alone whatever is not this instance's Envoy,
// though its pid file says so: the id may have been given to another process.
func TestEndPredecessorForeign(t *testing.T) {
	stateDir, d := newRunDir(t)
	other := filepath.Join(stateDir, "run", "gw2", "bootstrap.yaml")
	dead, exited := start(t, "crash")
	<-exited
	for _, test := range []struct {
		name string
		args []string
	}{
		{"another program", nil},
		{"another instance", []string{"-c", other}},
		{"a longer path", []string{"-c", d.bootstrap + ".old"}},
		{"a path that ends so", []string{"-c", "/elsewhere" + d.bootstrap}},
		{"the path inside an argument", []string{"-c=" + d.bootstrap}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd, exited := start(t, "sleeper", test.args...)
			writePID(t, d, strconv.Itoa(cmd.Process.Pid))
			untouched(t, stateDir)
			if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
				t.Errorf("it was ended: %v", err)
			}
			select {
			case err := <-exited:
				t.Errorf("it was ended: %v", err)
			default:
			}
		})
	}
	for _, text := range []string{"", "x", "0", "1", "-1", strconv.Itoa(dead.Process.Pid), strconv.Itoa(os.Getpid()), "99999999999999999999"} {
		writePID(t, d, text)
		untouched(t, stateDir)
	}
	if err := os.Remove(d.pid); err != nil {
		t.Fatal(err)
	}
	untouched(t, stateDir)
}

func untouched(t *testing.T, stateDir string) {
	t.Helper()
	r := newRecorder()
	if err := EndPredecessor(t.Context(), stateDir, "gw", time.Second, slog.New(r)); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string(nil), r.all()); diff != "" {
		t.Error(diff)
	}
}

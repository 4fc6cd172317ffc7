package agent

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/filter/contract"
)

// start runs this binary in a role. The process ends with the test.
func start(t *testing.T, role string, args ...string) (cmd *exec.Cmd, exited <-chan error) {
	t.Helper()
	return startNamed(t, "", role, args...)
}

// startNamed does so with a name as agents give it to Envoys.
func startNamed(t *testing.T, name, role string, args ...string) (cmd *exec.Cmd, exited <-chan error) {
	t.Helper()
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	if name != "" {
		cmd.Env = append(cmd.Env, contract.ProcessEnv+"="+name)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	startUp(t, cmd)
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

// TestEndPredecessor: a process with a name of this instance is stopped, even if its
// supervisor died before it could store the process id.
func TestEndPredecessor(t *testing.T) {
	stateDir, d := newRunDir(t)
	p, err := openProcesses(d.processes)
	if err != nil {
		t.Fatal(err)
	}
	cmd, exited := startNamed(t, begun(t, p), "sleeper", "-c", d.bootstrap, "--disable-hot-restart")
	begun(t, p) // the next one was never started
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
	case <-time.After(patience):
		t.Error("it still runs")
	}
}

// TestEndPredecessorForeign: a process that is not this instance's Envoy is left alone,
// even if the pid file or its arguments point to it. The id may have been given to another
// process, and another container may use the same paths.
func TestEndPredecessorForeign(t *testing.T) {
	stateDir, d := newRunDir(t)
	p, err := openProcesses(d.processes)
	if err != nil {
		t.Fatal(err)
	}
	ours := begun(t, p)
	dead, exited := start(t, "crash")
	<-exited
	for _, test := range []struct{ name, process string }{
		{"another program", ""}, {"another instance", "THEIRS"}, {"a longer name", ours + "X"}, {"a part of the name", ours[1:]},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd, exited := startNamed(t, test.process, "sleeper", "-c", d.bootstrap, "--disable-hot-restart")
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
	for _, file := range []string{d.pid, d.processes} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		untouched(t, stateDir)
	}
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

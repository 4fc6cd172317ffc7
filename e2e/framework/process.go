// Package framework starts the real parts of an end-to-end test (meshgate,
// Envoy through it, Redis) on free ports, and stops what it started.
package framework

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// Root is the top of the checkout.
func Root() string {
	dir, err := os.Getwd()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	ginkgo.Fail("no go.mod above the working directory")
	return ""
}

// Process is a child of the test.
type Process struct {
	cmd    *exec.Cmd
	output *output
	done   chan struct{}
	err    error
}

// Start runs a command until the test ends, or until it is stopped. The end of its output
// is shown if the test fails. A panic or a crash that it tells of fails the test,
// see [ExpectSound].
func Start(env []string, path string, args ...string) *Process {
	p := &Process{cmd: exec.Command(path, args...), output: &output{}, done: make(chan struct{})}
	p.cmd.Env = append(slices.DeleteFunc(os.Environ(), ours), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	gomega.Expect(p.cmd.Start()).To(gomega.Succeed())
	watch(p)
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	name := filepath.Base(path)
	ginkgo.DeferCleanup(func() {
		defer expectEndedSound(p)
		defer func() {
			if ginkgo.CurrentSpecReport().Failed() {
				ginkgo.AddReportEntry(name+" output", p.output.end())
			}
		}()
		p.Stop()
	})
	return p
}

// ours reports whether a variable is for the tests: meshgate warns of settings that
// it does not know.
func ours(variable string) bool { return strings.HasPrefix(variable, "MESHGATE_E2E_") }

// Output is what the process has printed, of very much the last.
func (p *Process) Output() string { return p.output.String() }

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) {
	gomega.Expect(p.cmd.Process.Signal(s)).To(gomega.Succeed())
}

// Kill ends the process without a chance to clean up, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stopping is how long a process may take to end when it is asked to, several
// times what requests get that are under way.
const stopping = time.Minute

// Stop asks the process to end, also one that is paused. One that does not is
// killed, and fails the test.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return
	case <-time.After(stopping):
	}
	p.output.expectStacks()
	_ = p.cmd.Process.Signal(syscall.SIGQUIT) // a Go program prints its stacks
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		p.Kill()
	}
	ginkgo.Fail(fmt.Sprintf("%s did not end within %s of SIGTERM:\n%s", p.cmd.Path, stopping, p.Output()), 1)
}

// Exit waits for the process to end by itself and returns its exit code.
func (p *Process) Exit(timeout time.Duration) int {
	select {
	case <-p.done:
	case <-time.After(timeout):
		ginkgo.Fail(fmt.Sprintf("%s did not end in %s:\n%s", p.cmd.Path, timeout, p.Output()))
	}
	return p.cmd.ProcessState.ExitCode()
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

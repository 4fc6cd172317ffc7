package module

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/meshgate/meshgate/e2e/framework"
	"github.com/meshgate/meshgate/e2e/ports"
)

const (
	startTimeout = time.Minute
	// patience bounds waits for what must happen soon.
	patience = time.Minute
)

// process is a child whose output is read until it ends.
type process struct {
	cmd  *exec.Cmd
	name string
	done chan struct{} // closed when the process has been reaped
	err  error         // of Wait, valid after done
	// mayPanic says that the test makes it panic; otherwise that fails the test.
	mayPanic bool

	mu  sync.Mutex
	log bytes.Buffer
}

// start runs a command and waits until its output contains ready. The process
// is stopped when the test ends.
func start(t *testing.T, ready string, cmd *exec.Cmd) *process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, name: cmd.Args[0], done: make(chan struct{})}
	cmd.Stdout = w
	if cmd.Stderr == nil {
		cmd.Stderr = w
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	found, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		p.read(r, ready, found)
	}()
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop(t)
		p.sound(t)
		if err := r.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
		<-read
	})
	select {
	case <-found:
	case <-p.done:
		<-read
		t.Fatalf("%s ended: %v\n%s", p.name, p.err, p.output())
	case <-time.After(startTimeout):
		t.Fatalf("%s did not get ready\n%s", p.name, p.output())
	}
	return p
}

func (p *process) read(r io.Reader, ready string, found chan<- struct{}) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		p.mu.Lock()
		fmt.Fprintln(&p.log, s.Text())
		p.mu.Unlock()
		if found != nil && strings.Contains(s.Text(), ready) {
			close(found)
			found = nil
		}
	}
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

// alive fails the test if the process has ended.
func (p *process) alive(t *testing.T) {
	t.Helper()
	select {
	case <-p.done:
		t.Fatalf("%s has ended: %v\n%s", p.name, p.err, p.output())
	default:
	}
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	if t.Failed() {
		t.Logf("%s:\n%s", p.name, p.output())
	}
	for _, s := range []os.Signal{syscall.SIGCONT, syscall.SIGTERM} {
		if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Errorf("%s did not end on SIGTERM", p.name)
		if err := p.cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		<-p.done
	}
}

// sound fails the test if the process has told of a panic or a crash.
func (p *process) sound(t *testing.T) {
	t.Helper()
	if p.mayPanic {
		return
	}
	for _, line := range framework.Unsound(p.output()) {
		t.Error(line)
	}
}

// freePort returns a port on which nobody listened a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	return free[0]
}

// eventually waits for a condition that lies in another process, which cannot
// tell us when it changes.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// Package redistest runs real Redis servers for tests.
package redistest

import (
	"bytes"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/meshgate/meshgate/e2e/ports"
)

// patience is how long a server may take to start on a busy machine.
const patience = time.Minute

// Server is a redis-server that stores nothing on disk. It ends with its test.
type Server struct {
	// Port belongs to this server: no other test gets it, and it stays the same over
	// restarts.
	Port string
	// bus is the port where other members of its cluster reach it. It is empty outside a
	// cluster.
	bus     string
	args    []string
	process *process
}

// Start runs a server on a free port of this host, with further arguments. It returns once
// the server accepts connections.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	free := take(t, 1)
	return start(t, &Server{Port: free[0], args: slices.Concat([]string{"--port", free[0]}, args)})
}

// StartTLS is [Start] for a server that accepts only TLS and demands no client certificates.
func StartTLS(t testing.TB, certFile, keyFile string) *Server {
	t.Helper()
	free := take(t, 1)
	return start(t, &Server{Port: free[0], args: []string{"--port", "0", "--tls-port", free[0],
		"--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-auth-clients", "no"}})
}

// StartMember is [Start] for a server that may join a cluster.
func StartMember(t testing.TB, args ...string) *Server {
	t.Helper()
	free := take(t, 2)
	return start(t, &Server{Port: free[0], bus: free[1], args: slices.Concat([]string{"--port", free[0],
		"--cluster-enabled", "yes", "--cluster-port", free[1]}, args)})
}

func start(t testing.TB, s *Server) *Server {
	t.Helper()
	t.Cleanup(s.Kill)
	s.Restart(t)
	return s
}

func take(t testing.TB, n int) []string {
	t.Helper()
	free, err := ports.Free(n)
	if err != nil {
		t.Fatal(err)
	}
	texts := make([]string, n)
	for i, port := range free {
		texts[i] = strconv.Itoa(port)
	}
	return texts
}

// Restart ends the server, if it runs, and starts an empty one at the same address.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	p := &process{ready: make(chan struct{}), ended: make(chan struct{})}
	p.cmd = exec.Command("redis-server", slices.Concat([]string{"--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, s.args)...) //nolint:gosec // arguments of tests
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("redis-server is needed: %v", err)
	}
	s.process = p
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // it was killed, or its output is shown
	}()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	select {
	case <-p.ready:
	case <-p.ended:
		t.Fatalf("redis-server ends at once:\n%s", p.text())
	case <-deadline.C:
		t.Fatalf("redis-server does not begin:\n%s", p.text())
	}
}

// Kill ends the server at once, even if it is frozen, and waits until it is gone.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.cmd.Process.Kill() // or it has ended
	<-s.process.ended
	s.process = nil
}

// Freeze stops the server with its connections open: it no longer answers.
func (s *Server) Freeze(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGSTOP) }

// Thaw lets the server continue.
func (s *Server) Thaw(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := s.process.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Address returns its host and port.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", s.Port) }

// User adds a user with a password. It returns both in the form that precedes the address in
// a URL.
func (s *Server) User(t testing.TB, name, password string, rules ...string) string {
	t.Helper()
	s.CLI(t, slices.Concat([]string{"ACL", "SETUSER", name, "on", ">" + password}, rules)...)
	return name + ":" + password + "@"
}

// Disconnect ends the connections of all clients.
func (s *Server) Disconnect(t testing.TB) {
	t.Helper()
	s.CLI(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
}

// Meet introduces another member of a cluster to this one.
func (s *Server) Meet(t testing.TB, other *Server) {
	t.Helper()
	s.CLI(t, "CLUSTER", "MEET", "127.0.0.1", other.Port, other.bus)
}

// CLI runs one command as the default user and returns what redis-cli prints.
func (s *Server) CLI(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("redis-cli", slices.Concat([]string{"-p", s.Port}, args)...).CombinedOutput() //nolint:gosec // arguments of tests
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// process is one run of a server. As a writer it receives the output of the server.
type process struct {
	cmd          *exec.Cmd
	ready, ended chan struct{}

	mu   sync.Mutex
	said bytes.Buffer // until it is ready
	done bool
}

// Write looks for the line that says that connections are accepted.
func (p *process) Write(piece []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return len(piece), nil
	}
	p.said.Write(piece)
	if bytes.Contains(p.said.Bytes(), []byte("Ready to accept connections")) {
		p.done = true
		close(p.ready)
	}
	return len(piece), nil
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

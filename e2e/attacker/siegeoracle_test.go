package attacker_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// guessing lends the attacker secrets that nobody has issued, where the suite has none yet.
func guessing(t *testing.T) {
	t.Helper()
	before := secrets
	secrets = []*secret{{kind: token, text: "guess"}, {kind: key, text: "guess"}}
	t.Cleanup(func() { secrets = before })
}

// stubPort is a port of a server of the test.
func stubPort(t *testing.T, s *httptest.Server, secure bool) *port {
	t.Helper()
	guessing(t)
	p := &port{status: http.StatusOK, door: door{name: "stub", ip: "127.0.0.1", host: "localhost", next: "/next", http1: true, documents: true, targets: leading("a"), behind: &target{name: "nothing"}}}
	at := s.Listener.Addr().(*net.TCPAddr).Port
	if !secure {
		p.plain = at
		return p
	}
	p.secure = at
	p.roots = func() (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		pool.AddCert(s.Certificate())
		return pool, nil
	}
	return p
}

// besiege lets the attacker loose on a stub.
func besiege(p *port) *siege {
	s := &siege{ports: []*port{p}, seed: usualSeed, attacks: 300, patience: 5 * time.Second}
	s.attack(8)
	return s
}

func expectSeen(t *testing.T, s *siege, what string) {
	t.Helper()
	if wrong := s.violations(); !slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, what) }) {
		t.Errorf("%q was not seen in %d attacks: %.500q", what, s.next.Load(), wrong)
	}
}

// TestSiegeOracle: servers that fail are found out, and one that behaves is not blamed.
func TestSiegeOracle(t *testing.T) {
	well := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a client may break off
		_, _ = io.WriteString(w, "well")
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		seen    string
	}{
		"behaves": {well, ""},
		"fails": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusInternalServerError)
			}
			well(w, r)
		}, "500"},
		"fails at what is broken off": {func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}, "failed: "},
		"says that it has no room": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, "an error of the control plane"},
		"ends without a word":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "got no answer"},
		"treats who comes next as another": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/next" {
				w.WriteHeader(http.StatusNotFound)
			}
			well(w, r)
		}, "who came next"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.handler)
			defer server.Close()
			s := besiege(stubPort(t, server, false))
			if c.seen != "" {
				expectSeen(t, s, c.seen)
			} else if wrong := s.violations(); len(wrong) > 0 {
				t.Errorf("%.1000q", wrong)
			}
		})
	}
}

// silentPort accepts connections, reads from them and does nothing more.
func silentPort(t *testing.T) *httptest.Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		var open []net.Conn
		for {
			conn, err := ln.Accept()
			if err != nil {
				break
			}
			open = append(open, conn)
			work.Go(func() { _, _ = io.Copy(io.Discard, conn) }) // until it is closed
		}
		for _, conn := range open {
			_ = conn.Close()
		}
	})
	t.Cleanup(func() { _ = ln.Close(); work.Wait() })
	return &httptest.Server{Listener: ln}
}

// TestSilenceIsSeen: a port that holds on to connections is found out, whoever comes: with a
// request, with garbage, without the password of a Redis, slowly, or as a canary.
func TestSilenceIsSeen(t *testing.T) {
	p := stubPort(t, silentPort(t), false)
	const short = 200 * time.Millisecond
	s := &siege{ports: []*port{p}, seed: usualSeed, attacks: 300, patience: short}
	s.attack(8)
	expectSeen(t, s, errSilence.Error())
	if err := p.canary(short); err == nil {
		t.Error("the canary lives")
	}
	slow := slowness{"slow", func() (net.Conn, error) { return dialRaw(&p.door, false) }, "GET", " ", short - late}
	if problem := slow.endure(); !strings.Contains(problem, "was not ended") {
		t.Errorf("slow: %q", problem)
	}
	p.commands = true
	s = &siege{ports: []*port{p}, seed: usualSeed, attacks: 300, patience: short}
	s.attack(8)
	expectSeen(t, s, errSilence.Error())
	if err := p.canary(short); err == nil {
		t.Error("the canary of commands lives")
	}
}

// TestServedCallsAreSeen: a call of gRPC that is served, and one that fails, are found out;
// one that is refused is right.
func TestServedCallsAreSeen(t *testing.T) {
	RegisterTestingT(t)
	pair, err := tls.X509KeyPair(both(framework.Certificate("localhost")))
	if err != nil {
		t.Fatal(err)
	}
	for status, seen := range map[string]string{"0": "a call by nobody was served", "2": "a call failed", unauthenticated: ""} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", status)
		}))
		server.EnableHTTP2, server.TLS = true, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		server.StartTLS()
		p := stubPort(t, server, true)
		p.calls, p.http1 = true, false
		if seen != "" {
			expectSeen(t, besiege(p), seen)
		}
		err := p.canary(time.Second)
		if (err == nil) != (seen == "") {
			t.Errorf("%s: the canary says %v", status, err)
		}
		server.Close()
	}
}

func both(certificate, key string) (c, k []byte) { return []byte(certificate), []byte(key) }

// TestTheSameSeedIsTheSameAttacks: a run can be repeated, but for the keys of TLS.
func TestTheSameSeedIsTheSameAttacks(t *testing.T) {
	guessing(t)
	p := &port{door: door{name: "x", plain: 1, host: "localhost", next: "/", http1: true, documents: true, targets: leading("a", "b"), behind: &target{name: "nothing"}}}
	of := func(seed uint64) (out []byte) {
		for n := range uint64(60) {
			a := newAttack(&p.door, seed, n+1)
			text, _ := a.raw()
			out = append(out, text...)
			r := rand.New(rand.NewPCG(seed, n))
			out = append(out, command(r)...)
			out = append(out, frames(r)...)
			out = fmt.Appendf(out, "%q", calls(r))
		}
		return out
	}
	if !bytes.Equal(of(1), of(1)) || bytes.Equal(of(1), of(2)) {
		t.Error("the seed does not decide")
	}
}

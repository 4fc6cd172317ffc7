package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/e2e/ports"
	"github.com/meshgate/meshgate/filter/contract"
)

const someToken = "some.token.x"

// place is where an agent looks for its control plane.
type place struct {
	address, ca string
	// authority signs the certificates of servers here.
	authority *x509.Certificate
	key       *ecdsa.PrivateKey
}

func newPlace(t *testing.T) *place {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{key: key, authority: &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}}
	der, err := x509.CreateCertificate(rand.Reader, p.authority, p.authority, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if p.authority, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	p.ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(p.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// serve runs a server with a certificate that change may modify.
func (p *place) serve(t *testing.T, h http.HandlerFunc, change func(*x509.Certificate)) {
	t.Helper()
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, URIs: []*url.URL{contract.DataPlaneURI()},
	}
	if change != nil {
		change(cert)
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, p.authority, p.key.Public(), p.key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: p.key}}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	p.address = s.URL
}

// agent returns an agent that looks there, and its log.
func (p *place) agent(t *testing.T, token string) (*Agent, *recorder) {
	t.Helper()
	dir, r := shortDir(t), newRecorder()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return newAgent(t, Options{
		StateDir: dir, ControlPlane: "default", Name: "gw", Address: p.address, Log: slog.New(r), CAFile: p.ca, TokenFile: file,
		Instance: gateway.Instance{Listen: "0.0.0.0", HTTPPort: 8000, HTTPSPort: 8443},
	}), r
}

// TestAway: each way in which the control plane can be out of reach has its own text that
// says what to do, both for an enrolment and for the stream. It is logged in one line
// however often it is tried.
func TestAway(t *testing.T) {
	nobody := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }
	for _, tc := range []struct {
		name   string
		token  string
		begin  func(t *testing.T, p *place)
		reason string
		texts  []string
	}{
		{"nothing listens", someToken, func(t *testing.T, p *place) {
			free, err := ports.Free(1) // nobody else is given it meanwhile
			if err != nil {
				t.Fatal(err)
			}
			p.address = fmt.Sprintf("https://127.0.0.1:%d", free[0])
		}, health.Refused, []string{"nothing listens at --cp-address https://127.0.0.1:", "start the control plane"}},
		{"no such host", someToken, func(_ *testing.T, p *place) { p.address = "https://nowhere.invalid:5678" }, health.UnknownHost, []string{"--cp-address https://nowhere.invalid:5678 is not known"}},
		{"another authority", someToken, func(t *testing.T, p *place) {
			newPlace := newPlace(t)
			newPlace.serve(t, nobody, nil)
			p.address = newPlace.address
		}, health.UnknownAuthority, []string{"--ca-cert-file ", "the SHA-256 fingerprint ", "ca.pem of the state directory"}},
		{"another name", someToken, func(t *testing.T, p *place) {
			p.serve(t, nobody, func(c *x509.Certificate) {
				c.DNSNames, c.IPAddresses = []string{"cp.example", "localhost"}, []net.IP{net.IPv4(10, 0, 0, 1)}
			})
		}, health.WrongName, []string{"is for cp.example, localhost, 10.0.0.1, not for 127.0.0.1", "--data-plane-names 127.0.0.1"}},
		{"expired", someToken, func(t *testing.T, p *place) {
			p.serve(t, nobody, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
		}, health.ServerExpired, []string{"not good at this time", "clock"}},
		{"not yet valid", someToken, func(t *testing.T, p *place) {
			p.serve(t, nobody, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })
		}, health.ServerExpired, []string{"not good at this time", "clock"}},
		{"another server", someToken, func(t *testing.T, p *place) {
			p.serve(t, nobody, func(c *x509.Certificate) { c.URIs = nil })
		}, "another_server", []string{"dataPlane.port"}},
		{"no TLS", someToken, func(t *testing.T, p *place) {
			s := httptest.NewServer(http.HandlerFunc(nobody))
			t.Cleanup(s.Close)
			p.address = strings.Replace(s.URL, "http:", "https:", 1)
		}, health.NoTLS, []string{"does not speak TLS"}},
		{"hangs up", someToken, func(t *testing.T, p *place) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
					_ = conn.Close()
				}
			}()
			t.Cleanup(func() {
				_ = ln.Close()
				<-ended
			})
			p.address = "https://" + ln.Addr().String()
		}, health.HangsUp, []string{"ends connections at once"}},
		{"an empty token file", " \n", func(t *testing.T, p *place) { p.serve(t, nobody, nil) }, "token_empty", []string{"the token file ", " is empty"}},
		{"garbage for a token", "garbage pa55word", func(t *testing.T, p *place) { p.serve(t, nobody, nil) }, "token_garbage", []string{"is not a token"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlace(t)
			tc.begin(t, p)
			a, r := p.agent(t, tc.token)
			check := func(who string) {
				t.Helper()
				c := a.conditions.Get(conditionControlPlane)
				for _, text := range append(tc.texts, meanwhile) {
					if !strings.Contains(c.Text, text) {
						t.Errorf("%s: %q is not in %q", who, text, c.Text)
					}
				}
				if c.Reason != tc.reason || c.State != health.Degraded || strings.Contains(c.Text, "%!") || strings.Contains(c.Text, "pa55word") {
					t.Errorf("%s: %+v", who, c)
				}
			}
			for range 3 {
				_, err := a.enrol(t.Context())
				if a.report(err); err == nil {
					t.Fatal("enrolled")
				}
				check("an enrolment")
			}
			met := reports(t, a)
			for range 3 {
				a.report(met(t))
				check("the stream")
			}
			lines := 0
			for _, l := range r.all() {
				if strings.Contains(l, "the control plane cannot be reached") {
					lines++
				}
			}
			if lines != 1 {
				t.Errorf("%d lines", lines)
			}
		})
	}
}

// reports runs the relay of an agent, and returns a function that yields the results of its
// attempts.
func reports(t *testing.T, a *Agent) func(*testing.T) error {
	t.Helper()
	met := make(chan error, 100)
	stream, err := a.newRelayTo(t.Context(), func(err error) { met <- err })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = stream.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return func(t *testing.T) error {
		t.Helper()
		select {
		case err := <-met:
			return err
		case <-time.After(patience):
			t.Fatal("the relay meets nothing")
			return nil
		}
	}
}

// TestTurnedDown: the operator gets what the control plane says about a token.
func TestTurnedDown(t *testing.T) {
	cp := newControlPlane(t)
	o, _ := cp.options(t, "gw")
	a := newAgent(t, o)
	stranger := newControlPlane(t)
	foreign, err := stranger.tokens.Gateway("default", "gw", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	brief, err := cp.tokens.Gateway("default", "gw", time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	for text, token := range map[string]string{
		"is not a token": "a.b.c", "was signed by a key that this control plane does not know": foreign, "expired at ": brief,
	} {
		if err := os.WriteFile(a.TokenFile, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := a.enrol(t.Context())
		if a.report(err); !final(err) {
			t.Errorf("%s: %v", text, err)
		}
		c := a.conditions.Get(conditionControlPlane)
		if c.Reason != "turned_down" || !strings.Contains(c.Text, text) || !strings.Contains(c.Text, a.TokenFile) || strings.Contains(c.Text, token) {
			t.Errorf("%s: %+v", text, c)
		}
	}
}

// TestTimeout: a control plane that does not answer.
func TestTimeout(t *testing.T) {
	p := newPlace(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p.address = "https://" + ln.Addr().String()
	a, _ := p.agent(t, someToken)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = a.enrol(ctx)
	if a.report(err); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if c := a.conditions.Get(conditionControlPlane); c.Reason != health.Timeout || !strings.Contains(c.Text, "firewall") {
		t.Errorf("%+v", c)
	}
}

// TestClock: the agent notices a control plane whose clock is far off. A slow control plane
// is not mistaken for one.
func TestClock(t *testing.T) {
	var said time.Time
	p := newPlace(t)
	p.serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", said.Format(http.TimeFormat))
		w.WriteHeader(http.StatusServiceUnavailable)
	}, nil)
	a, r := p.agent(t, someToken)
	for _, tc := range []struct {
		off    time.Duration
		reason string
	}{{0, ""}, {5 * time.Second, ""}, {-5 * time.Second, ""}, {time.Minute, "control_plane_ahead"}, {2 * time.Minute, "control_plane_ahead"}, {-time.Minute, "control_plane_behind"}, {0, ""}} {
		said = time.Now().Add(tc.off).UTC()
		if _, err := a.enrol(t.Context()); err == nil {
			t.Fatal("enrolled")
		}
		c := a.conditions.Get(conditionClock)
		if c.Reason != tc.reason || tc.reason != "" && !strings.Contains(c.Text, said.Format(time.RFC3339)) {
			t.Errorf("%s: %+v", tc.off, c)
		}
	}
	lines := 0
	for _, l := range r.all() {
		if strings.Contains(l, "condition=clock") {
			lines++
		}
	}
	if lines != 3 {
		t.Errorf("%d lines", lines)
	}
}

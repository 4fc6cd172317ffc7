package agent

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/filter/contract"
)

// controlPlane is the enrolment part of a control plane, over TLS. While refuse is set, it
// answers instead.
type controlPlane struct {
	*httptest.Server
	tokens *identity.Tokens
	// enrolment answers by default.
	enrolment *enrol.Server
	refuse    atomic.Pointer[http.HandlerFunc]
}

func newControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	return controlPlaneAs(t, contract.DataPlaneURI())
}

// controlPlaneAs returns a control plane whose certificate has an identity.
func controlPlaneAs(t *testing.T, shown *url.URL) *controlPlane {
	t.Helper()
	s := memstore.New()
	t.Cleanup(func() { _ = s.Close() })
	tokens, err := identity.OpenTokens(t.Context(), s, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	cp := &controlPlane{tokens: tokens}
	server := &enrol.Server{Store: s, Writer: admit.New(s, &admittest.Revoker{}, gateway.Kinds(), time.Now), Tokens: tokens}
	cp.enrolment = server
	cp.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := cp.refuse.Load(); f != nil {
			(*f)(w, r)
			return
		}
		server.ServeHTTP(w, r)
	}))
	cp.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	cp.TLS = dataPlaneTLS(t, shown)
	cp.TLS.ClientAuth = tls.RequestClientCert
	cp.StartTLS()
	t.Cleanup(cp.Close)
	return cp
}

// options returns the options of an agent of this control plane, with a token for node.
func (cp *controlPlane) options(t *testing.T, node string) (Options, *recorder) {
	t.Helper()
	token, err := cp.tokens.Gateway("default", node, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dir, r := shortDir(t), newRecorder()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cp.Certificate().Raw})
	for name, text := range map[string]string{"ca.pem": string(ca), "token": token + "\n", "empty.pem": "nothing"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Options{
		StateDir: dir, ControlPlane: "default", Name: "gw", Address: cp.URL, Log: slog.New(r),
		CAFile: filepath.Join(dir, "ca.pem"), TokenFile: filepath.Join(dir, "token"),
		Instance: gateway.Instance{Listen: "0.0.0.0", HTTPPort: 8000, HTTPSPort: 8443},
	}, r
}

func newAgent(t *testing.T, o Options) *Agent {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestNew: options that cannot work are refused before anything is started.
func TestNew(t *testing.T) {
	cp := newControlPlane(t)
	for _, test := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"http", func(o *Options) { o.Address = "http://cp:5678" }, `the control plane's address "http://cp:5678" is not https://host:port`},
		{"no port", func(o *Options) { o.Address = "https://cp" }, `the control plane's address "https://cp" is not https://host:port`},
		{"no scheme", func(o *Options) { o.Address = "cp:5678" }, `the control plane's address "cp:5678" is not https://host:port`},
		{"no CA", func(o *Options) { o.CAFile += ".not" }, "the control plane's CA: open "},
		{"an empty CA", func(o *Options) { o.CAFile = filepath.Join(o.StateDir, "empty.pem") }, "the control plane's CA: "},
		{"no token", func(o *Options) { o.TokenFile += ".not" }, "the node token: open "},
		{"no directory", func(o *Options) { o.StateDir = o.TokenFile }, "run directory: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, _ := cp.options(t, "gw")
			test.change(&o)
			if a, err := New(o); a != nil || err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

// TestEnrolment: an agent waits for a control plane that is away, logs it once, and
// continues when it is back.
func TestEnrolment(t *testing.T) {
	cp := newControlPlane(t)
	failures := 0
	fail := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch failures++; failures {
		case 1: // the connection breaks
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		default: // it is there but cannot answer yet
			w.WriteHeader(http.StatusServiceUnavailable)
			cp.refuse.Store(nil)
		}
	})
	cp.refuse.Store(&fail)
	o, r := cp.options(t, "gw")
	a := newAgent(t, o)
	if _, err := a.enrolFirst(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"reason=hangs_up", "reason=unavailable", "the control plane answers again"}
	got := r.all()
	for i := range got {
		if len(got) != len(want) || !strings.Contains(got[i], want[i]) {
			got = append(got, "which is wrong")
			break
		}
	}
	if failures != 2 || len(got) != len(want) {
		t.Errorf("%d failures, logged %q", failures, got)
	}
	for _, f := range []string{a.dir.bootstrap, a.dir.settings} {
		if _, err := os.Stat(f); err != nil {
			t.Error(err)
		}
	}
}

// TestEnrolmentAway: there is no control plane at all.
func TestEnrolmentAway(t *testing.T) {
	cp := newControlPlane(t)
	o, r := cp.options(t, "gw")
	cp.Close()
	a := newAgent(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := a.enrolFirst(ctx)
		ended <- err
	}()
	r.wait(t, "reason=refused")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("without earlier settings: %v", err)
	}
	own, err := a.proxy().bootstrap(&enrol.Answer{Node: a.NodeID()})
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]string{a.dir.bootstrap: string(own), a.dir.settings: "s", a.dir.cache: "c"}
	for f, text := range before {
		if err := replace(f, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.enrolFirst(t.Context()); err != nil {
		t.Errorf("with earlier settings: %v", err)
	}
	r.wait(t, "starting with what the control plane said last")
	after := map[string]string{}
	for f := range before {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		after[f] = string(text)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("earlier settings were changed:\n%s", diff)
	}
}

// TestEnrolmentFinal: the agent gives up if waiting would not help, even with settings of
// an earlier run, because a node that was refused must not serve.
func TestEnrolmentFinal(t *testing.T) {
	cp := newControlPlane(t)
	for _, test := range []struct {
		name, node string
		change     func(t *testing.T, a *Agent)
		want       string
		refused    bool
	}{
		{"another node's token", "gw2", func(*testing.T, *Agent) {}, "the control plane refused the enrolment with 403: the node token is for cp/default/gw2, not for cp/default/gw", true},
		{"no token", "gw", func(t *testing.T, a *Agent) {
			if err := os.WriteFile(a.TokenFile, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "the token file ", false},
		{"a port that is none", "gw", func(_ *testing.T, a *Agent) { a.Instance.HTTPPort = 70000 }, "the control plane refused the enrolment with 422: ", true},
		{"nothing can be written", "gw", func(t *testing.T, a *Agent) {
			if err := os.RemoveAll(a.dir.path); err != nil {
				t.Fatal(err)
			}
		}, "run directory: ", false},
		{"the path of a socket is too long", "gw", func(_ *testing.T, a *Agent) { a.dir.relay = "/" + strings.Repeat("x", 200) }, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, _ := cp.options(t, test.node)
			a := newAgent(t, o)
			for _, f := range []string{a.dir.bootstrap, a.dir.settings, a.dir.cache} {
				if err := replace(f, []byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			test.change(t, a)
			_, err := a.enrolFirst(t.Context())
			_, refused := errors.AsType[*enrol.Refused](err)
			var named string // the token file, in cases in which its token may be wrong
			if test.refused {
				named = ". The token is read from " + a.TokenFile
			}
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || refused != test.refused || !strings.Contains(err.Error(), named) {
				t.Errorf("%v (refused %t), want %s and %q", err, refused, test.want, named)
			}
		})
	}
}

// TestPinned: an agent talks only to the control plane whose CA it was given, even if the
// address is right.
func TestPinned(t *testing.T) {
	cp := newControlPlane(t)
	o, r := cp.options(t, "gw")
	stranger := newAuthorityFile(t, o.StateDir)
	o.CAFile = stranger
	asked := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a token was sent to a stranger") })
	cp.refuse.Store(&asked)
	a := newAgent(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := a.enrolFirst(ctx)
		ended <- err
	}()
	if l := r.wait(t, "the control plane cannot be reached"); !strings.Contains(l, "--ca-cert-file "+stranger) {
		t.Errorf("logged %q", l)
	}
	cancel()
	<-ended
}

func newAuthorityFile(t *testing.T, dir string) string {
	t.Helper()
	s := memstore.New()
	t.Cleanup(func() { _ = s.Close() })
	authority, err := identity.OpenAuthority(t.Context(), s, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "stranger.pem")
	if err := os.WriteFile(file, authority.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestNodeID: agent and control plane agree on the name of a node.
func TestNodeID(t *testing.T) {
	a := &Agent{Options: Options{ControlPlane: "default", Name: "gw"}}
	if diff := cmp.Diff(identity.GatewayNode("default", "gw"), a.NodeID()); diff != "" {
		t.Error(diff)
	}
}

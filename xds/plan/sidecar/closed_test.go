package sidecar_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/e2e/ports"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
	"github.com/meshgate/meshgate/xds/policy/timeout"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestInboundThatFailsLetsNobodyPass: an inbound that let everybody pass gets a demand for
// tokens that cannot be built, in each place where it can fail. A real Envoy then refuses what
// it passed on before.
func TestInboundThatFailsLetsNobodyPass(t *testing.T) {
	for name, spoil := range map[string]func(*policy.Policy){
		"looking up": func(p *policy.Policy) {
			p.Facts = func(policy.World, []*view.Policy) any { panic("a mistake") }
		},
		"routes": func(p *policy.Policy) {
			p.InboundRoutes = func(_ *draft.Routes, s *policy.Selection) error {
				if s != nil {
					return errors.New("a mistake")
				}
				return nil
			}
		},
		"chains": func(p *policy.Policy) {
			p.Inbound = func(_ *draft.Inbound, s *policy.Selection) error {
				if s != nil {
					panic("a mistake")
				}
				return nil
			}
		},
	} {
		want := "closed"
		if name == "routes" {
			want = `503 {"message":"the rules of this service cannot be enforced"}`
		}
		t.Run(name, func(t *testing.T) {
			policies := all.Policies()
			for i, p := range policies {
				if p.Kind == meshtokenauth.Kind {
					broken := *p
					spoil(&broken)
					policies[i] = &broken
				}
			}
			free, err := ports.Free(1)
			if err != nil {
				t.Fatal(err)
			}
			listen, workload := uint32(free[0]), server(t)
			w := newWorld(t)
			d := dataplane("127.0.0.1", "backend", "http")
			d.Networking.Inbound[0].Port, d.Networking.Inbound[0].ServicePort = listen, workload
			w.put(mesh.Dataplanes, meshName, "backend-1", d)
			planner := sidecar.New(policies, nil, logged, w.state())
			planner.Join("backend-1")
			planner.Plan()
			t.Run("before", func(t *testing.T) {
				if got := asked(t, static(t, planner.Set("backend-1")), listen); got != "200 the workload" {
					t.Errorf("it answers %q", got)
				}
			})
			w.raw(tokensOfBackend)
			planner.Update(w.state(), nil, true)
			planner.Plan()
			t.Run("after", func(t *testing.T) {
				if got := asked(t, static(t, planner.Set("backend-1")), listen); got != want {
					t.Errorf("it answers %q, want %q", got, want)
				}
			})
			if f := planner.Failures("backend-1"); len(f) != 1 || f[0].Kept {
				t.Errorf("failures are %+v", f)
			}
		})
	}
}

// server runs a workload and returns its port.
func server(t *testing.T) uint32 {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "the workload")
	})}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return uint32(ln.Addr().(*net.TCPAddr).Port)
}

// asked runs a real Envoy and returns the answer to a request to a port. It returns "closed"
// if the connection ends without an answer.
func asked(t *testing.T, b *bootstrapv3.Bootstrap, port uint32) string {
	t.Helper()
	text, err := protojson.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	plantest.Run(t, file)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := client.Get("http://127.0.0.1:" + strconv.Itoa(int(port)) + "/")
	if err != nil {
		return "closed"
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(res.StatusCode) + " " + string(body)
}

// TestOutboundThatFailsDoesNotStayInClear: a mesh becomes strict while the cluster of a
// destination cannot be built. Requests must not continue to go out in clear. While the mesh
// permits both, they may.
func TestOutboundThatFailsDoesNotStayInClear(t *testing.T) {
	broken := false
	for name, spoil := range map[string]func(*policy.Policy){
		"the cluster": func(p *policy.Policy) {
			good := p.Cluster
			p.Cluster = func(d *draft.Cluster, s *policy.Selection) error {
				if broken {
					return errors.New("a mistake")
				}
				return good(d, s)
			}
		},
		"looking up": func(p *policy.Policy) {
			p.Facts = func(policy.World, []*view.Policy) any {
				if broken {
					panic("a mistake")
				}
				return nil
			}
		},
	} {
		policies := all.Policies()
		for i, p := range policies {
			if p.Kind == timeout.Kind {
				spoilt := *p
				spoil(&spoilt)
				policies[i] = &spoilt
			}
		}
		for mode, kept := range map[string]bool{mesh.ModePermissive: true, mesh.ModeStrict: false} {
			t.Run(name+" "+mode, func(t *testing.T) {
				broken = false
				w := newWorld(t)
				pair("http")(w)
				planner := sidecar.New(policies, nil, logged, w.state())
				for _, name := range both {
					planner.Join(name)
					planner.Secured(name, true)
				}
				planner.Plan()
				if planner.Set("web-1").Get(resource.Cluster, "backend") == nil {
					t.Fatal("there is no cluster")
				}
				broken = true
				w.under(mode)
				planner.Update(w.state(), nil, true)
				planner.Plan()
				if got := planner.Set("web-1").Get(resource.Cluster, "backend") != nil; got != kept {
					t.Errorf("the cluster in clear is there: %t", got)
				}
				if len(planner.Failures("web-1")) == 0 {
					t.Error("nobody is told")
				}
			})
		}
	}
}

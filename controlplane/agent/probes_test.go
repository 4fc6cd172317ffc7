package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/prober"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/machine"
	"github.com/meshgate/meshgate/xds/probing"
)

// TestProbes: the agent of a sidecar tells the control plane, as its node, which workloads are there,
// and tries again if that is not taken. It does not connect to what is for operators. The proxy
// withdraws only after it has stopped.
func TestProbes(t *testing.T) {
	cp := newControlPlane(t)
	reports, calls := make(chan probing.Report, 16), make(chan string, 16)
	refused := 1
	var a *Agent
	f := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == probing.Path && refused > 0 {
			refused--
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		calls <- r.URL.Path
		if r.URL.Path == probing.Path {
			var report probing.Report
			if err := json.NewDecoder(r.Body).Decode(&report); err != nil || r.Header.Get("Authorization") == "" || r.Header.Get(contract.NodeHeader) != "default.web-1" {
				t.Errorf("%v, of node %q", err, r.Header.Get(contract.NodeHeader))
			}
			reports <- report
		} else {
			select {
			case <-a.probed:
			default:
				t.Error("it probes while the proxy withdraws")
			}
		}
		w.WriteHeader(http.StatusNoContent)
	})
	cp.refuse.Store(&f)
	o, r := cp.options(t, "web-1")
	o.Name, o.Sidecar = "web-1", &Sidecar{Mesh: "default", Dataplane: "type: Dataplane"}
	workload, operators := listening(t), listening(t)
	o.AdminPort = int(operators.Port())
	a = newAgent(t, o)
	probe := func(port uint16, at netip.AddrPort, ready bool) probing.Probe {
		return probing.Probe{Inbound: probing.Inbound{Port: port}, At: at, Interval: 10 * time.Millisecond, Timeout: patience, Unhealthy: 1, Healthy: 1, Ready: ready}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go a.probe(ctx)
	there := probe(80, workload, false)
	a.probes([]probing.Probe{there})
	r.wait(t, "could not be told which workloads are there")
	if diff := cmp.Diff(probing.Report{Instance: a.instance, Inbounds: []probing.Finding{{Inbound: there.Inbound, Ready: true}}}, <-reports); diff != "" {
		t.Error(diff)
	}
	there.Ready = true
	a.probes([]probing.Probe{there, probe(81, operators, true)})
	if diff := cmp.Diff(probing.Report{Instance: a.instance, Inbounds: []probing.Finding{{Inbound: probing.Inbound{Port: 81}}}}, <-reports); diff != "" {
		t.Error(diff)
	}
	withdrawn := make(chan struct{})
	go func() { a.withdraw(context.Background()); close(withdrawn) }()
	there.Ready = false
	a.probes([]probing.Probe{there})
	<-reports // it goes on meanwhile
	cancel()
	<-withdrawn
	for _, want := range []string{probing.Path, probing.Path, probing.Path, enrol.Path} {
		if got := <-calls; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestNothingIsToldUnconnected: an agent that does not know what the mesh holds reports nothing.
func TestNothingIsToldUnconnected(t *testing.T) {
	cp := newControlPlane(t)
	f := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	cp.refuse.Store(&f)
	o, _ := cp.options(t, "web-1")
	o.Name, o.Sidecar = "web-1", &Sidecar{Mesh: "default"}
	a := newAgent(t, o)
	if err := a.tellFound(t.Context(), nil); err != nil {
		t.Error(err)
	}
	stream, err := a.newRelay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.relay.Store(stream)
	if err := a.tellFound(t.Context(), nil); !errors.Is(err, errNotConnected) {
		t.Error(err)
	}
}

// TestWhatProbesAskTheAgent: a listener that Envoy does not have is lacking, and where a workload may
// be is not known while the addresses of the machine cannot be read.
func TestWhatProbesAskTheAgent(t *testing.T) {
	cp := newControlPlane(t)
	o, _ := cp.options(t, "web-1")
	o.Name, o.Sidecar = "web-1", &Sidecar{Mesh: "default"}
	a := newAgent(t, o)
	stream, err := a.newRelay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.relay.Store(stream)
	if err := a.lacksListener("inbound:10.0.0.1:80"); err == nil || errors.Is(err, prober.ErrEarly) {
		t.Error(err)
	}
	if err := a.mayProbe(netip.MustParseAddrPort("127.0.0.1:80")); err != nil {
		t.Error(err)
	}
	if err := a.mayProbe(netip.MustParseAddrPort("192.0.2.1:80")); err == nil || errors.Is(err, prober.ErrUnable) {
		t.Error(err)
	}
	if err := unableIfUnread(fmt.Errorf("no: %w", machine.ErrUnread)); !errors.Is(err, prober.ErrUnable) {
		t.Error(err)
	}
}

// TestOnlySidecarsProbe: other proxies have no workloads.
func TestOnlySidecarsProbe(t *testing.T) {
	for _, s := range []*Sidecar{nil, {ZoneType: "ingress"}} {
		a := &Agent{Options: Options{Sidecar: s}}
		a.newProber()
		a.probes([]probing.Probe{{}})
		a.probe(t.Context()) // ends at once
		if <-a.probed; a.prober != nil {
			t.Error(s)
		}
	}
}

// listening returns an address at which somebody listens.
func listening(t *testing.T) netip.AddrPort {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	return netip.MustParseAddrPort(lis.Addr().String())
}

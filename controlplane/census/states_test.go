package census_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestStatesDoNotChange: what was read stays as it was.
func TestStatesDoNotChange(t *testing.T) {
	w := newWorld(t, 0)
	defer w.close()
	w.put(mesh.Meshes, "", "m", &mesh.Mesh{})
	w.put(mesh.Dataplanes, "m", "a", plain("web"))
	old := w.now()
	m, err := old.Mesh("m")
	w.must(err)
	in, services := *m.Insight(), m.Services()
	versions := maps.Clone(in.Versions.Agent)
	w.connect("m", "a")
	w.put(mesh.Dataplanes, "m", "b", plain("api"))
	w.put(rules, "m", "r", &rule{})
	w.compare("afterwards")
	if kept, err := old.Mesh("m"); kept != m || err != nil {
		t.Errorf("a state changed: %v", err)
	}
	if d := cmp.Diff(in, *m.Insight()); d != "" || len(m.Services()) != 1 || services[0].Status != census.StatusOffline {
		t.Errorf("an insight changed: %s", d)
	}
	if d := cmp.Diff(versions, m.Insight().Versions.Agent); d != "" {
		t.Error(d)
	}
}

// TestMeshMadeAgain: what belongs to a mesh that does not exist is not shown, and shown again with
// the mesh, which was then made later.
func TestMeshMadeAgain(t *testing.T) {
	w := newWorld(t, 0)
	defer w.close()
	w.put(mesh.Meshes, "", "m", &mesh.Mesh{})
	w.put(mesh.Dataplanes, "m", "a", plain("web"))
	w.put(mesh.ExternalServices, "m", "x", &mesh.ExternalService{Networking: &mesh.ExternalNetworking{Address: "x.example:1"}, Tags: mesh.Tags{mesh.TagService: "mail"}})
	w.put(rules, "m", "r", &rule{})
	w.compare("made")
	w.remove(mesh.Meshes, "", "m")
	w.compare("gone")
	w.put(rules, "m", "s", &rule{})
	w.remove(rules, "m", "r")
	w.connect("m", "a")
	w.compare("changed while it is gone")
	w.put(mesh.Meshes, "", "m", &mesh.Mesh{})
	w.compare("made again")
}

// TestNowWaits: whoever asks before anything is counted gets no numbers.
func TestNowWaits(t *testing.T) {
	s := memstore.New()
	defer func() { _ = s.Close() }()
	c := census.New(census.Options{Store: s, Kinds: kinds()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.Now(ctx); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
}

func plain(service string) *mesh.Dataplane {
	return &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Inbound: []mesh.Inbound{{Port: 80, Tags: mesh.Tags{mesh.TagService: service}}}}}
}

// TestReports: each change of what is known about a proxy is counted.
func TestReports(t *testing.T) {
	w := newWorld(t, 0)
	defer w.close()
	w.put(mesh.Meshes, "", "m", &mesh.Mesh{})
	w.put(mesh.Dataplanes, "m", "a", plain("web"))
	w.compare("created")
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"connected", func() { w.connect("m", "a") }},
		{"described", func() {
			w.insights.Described("m.a", insight.Versions{MeshDP: insight.AgentVersion{Version: "1.0"}, Proxy: insight.ProxyVersion{Version: "1.39"}})
		}},
		{"issued", func() { w.insights.Issued("m", "a", "ca-1", time.Now().Add(time.Hour), time.Now()) }},
		{"issued by another", func() { w.insights.Issued("m", "a", "ca-2", time.Now().Add(time.Hour), time.Now()) }},
		{"disconnected", func() { w.disconnect("m", "a") }},
		{"forgotten", func() { w.insights.Forget("m", "a") }},
		{"expected", func() { w.insights.Expect("m.a") }},
		{"removed", func() { w.insights.Remove("m.a") }},
	} {
		step.do()
		w.compare(step.name)
	}
}

// TestTimesOfCounts: what changes no count is no change of the insights.
func TestTimesOfCounts(t *testing.T) {
	w := newWorld(t, 0)
	defer w.close()
	w.put(mesh.Meshes, "", "m", &mesh.Mesh{})
	w.put(mesh.Dataplanes, "m", "a", plain("web"))
	w.put(mesh.Dataplanes, "m", "b", plain("api"))
	w.connect("m", "a")
	w.disconnect("m", "a")
	w.insights.Issued("m", "a", "ca-1", time.Now().Add(time.Hour), time.Now())
	// moments are those of the mesh and its services, at which they changed last, as it is shown.
	moments := func() (of [3]time.Time) {
		m, err := w.now().Mesh("m")
		w.must(err)
		of[0] = m.Insight().LastSync
		if !m.Insight().ModificationTime.Equal(of[0]) {
			t.Errorf("two times: %v, %v", m.Insight().ModificationTime, of[0])
		}
		for i, name := range []string{"web", "api"} {
			svc, err := m.Service(name)
			w.must(err)
			of[i+1] = svc.ModificationTime
		}
		return of
	}
	for _, step := range []struct {
		name string
		do   func()
		// moved are those of which something else is counted.
		moved [3]bool
	}{
		{"a renewed certificate", func() { w.insights.Issued("m", "a", "ca-1", time.Now().Add(2*time.Hour), time.Now()) }, [3]bool{}},
		{"the same mesh", func() { w.put(mesh.Meshes, "", "m", &mesh.Mesh{SkipCreatingInitialPolicies: []string{"*"}}) }, [3]bool{}},
		{"the same dataplane", func() { w.put(mesh.Dataplanes, "m", "a", plain("web")) }, [3]bool{}},
		{"one that will be ready", func() {
			d := plain("web")
			d.Networking.Inbound[0].State = mesh.StateNotReady
			w.put(mesh.Dataplanes, "m", "a", d)
		}, [3]bool{}},
		{"another authority", func() { w.insights.Issued("m", "a", "ca-2", time.Now().Add(time.Hour), time.Now()) }, [3]bool{true, true, false}},
		{"a policy", func() { w.put(rules, "m", "r", &rule{}) }, [3]bool{true, false, false}},
		{"a connection", func() { w.connect("m", "b") }, [3]bool{true, false, true}},
		{"a second connection", func() { w.connect("m", "b") }, [3]bool{}},
	} {
		before := moments()
		step.do()
		after := moments()
		for i, moved := range step.moved {
			if after[i].After(before[i]) != moved {
				t.Errorf("%s: time %d moved: %t; from %v to %v", step.name, i, !moved, before[i], after[i])
			}
		}
		w.compare(step.name)
	}
}

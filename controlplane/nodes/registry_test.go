package nodes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a registry over the real parts, with a test in the role of the revoker. Its time is
// virtual.
type rig struct {
	*nodes.Registry
	insights *insight.Insights
	snaps    *snapshot.Store
	filters  map[string]nodes.Filters
	gone     []string
	former   []string
	deleted  []string
	stored   *model.Resource
	fails    error
	streams  map[string]*snapshot.Subscription
	last     uint64
}

func bubble(t *testing.T, fn func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{snaps: snapshot.New(), filters: map[string]nodes.Filters{}, streams: map[string]*snapshot.Subscription{}}
		var err error
		if r.insights, err = insight.Open(t.Context(), insight.Options{Store: memstore.NewStatus(), Log: slog.New(slog.DiscardHandler)}); err != nil {
			t.Fatal(err)
		}
		r.Registry = nodes.New(nodes.Options{
			Insights: r.insights, Snapshots: r.snaps, Latest: func() uint64 { return 99 }, Instance: "cp-1",
			Scope:   func(typ, name string) string { return typ + " of " + name },
			Filters: func() map[string]nodes.Filters { return r.filters },
			Gone:    func(node string) error { r.gone = append(r.gone, node); delete(r.filters, node); return r.fails },
			GoneFormer: func(node string) error {
				r.former = append(r.former, node)
				return r.fails
			},
			Stored: func(context.Context, insight.Node) (*model.Resource, error) { return r.stored, nil },
			Delete: func(_ context.Context, n insight.Node, seen *model.Resource) (bool, error) {
				r.deleted = append(r.deleted, n.Type+" "+n.Scope+" "+n.Name)
				return seen != r.stored, r.fails
			},
		})
		fn(t, r)
		if err := r.insights.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// publish gives a node of mesh default another cluster.
func (r *rig) publish(node string, revision uint64) {
	set := resource.NewSet([]*resource.Resource{{Type: resource.Cluster, Name: "c", Version: fmt.Sprint(revision)}}, nil)
	r.snaps.Announce(snapshot.Publication{Scope: "sidecar of default", Sets: map[string]*resource.Set{node: set}, Revision: revision})
}

func (r *rig) connect(node string) *snapshot.Subscription {
	r.last++
	r.insights.Described(node, insight.Versions{
		Proxy: insight.ProxyVersion{Version: "1.39.3"}, MeshDP: insight.AgentVersion{Version: "1.0"}, Dependencies: map[string]string{"module": "m1"},
	})
	r.insights.Connected(server.Event{Node: node, Stream: r.last, Until: time.Now().Add(time.Hour)})
	r.streams[node] = r.snaps.Subscribe(node)
	return r.streams[node]
}

func (r *rig) leave(node string) {
	r.insights.Disconnected(server.Event{Node: node, Stream: r.last})
	r.streams[node].Close()
}

// shown returns a node as JSON.
func shown(t *testing.T, d nodes.Node) string {
	t.Helper()
	b, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const inStep = `{
 "name": "default.web",
 "type": "sidecar",
 "mesh": "default",
 "state": "connected",
 "since": "2000-01-01T00:00:00Z",
 "inStep": true,
 "revisions": {
  "desired": 8,
  "sent": 8,
  "acknowledged": 8
 },
 "rejected": [],
 "versions": {
  "envoy": "1.39.3",
  "module": "m1",
  "agent": "1.0"
 },
 "tokenExpires": "2000-01-01T01:00:00Z",
 "filters": {
  "known": 1,
  "linked": 1
 }
}`

const rejecting = `{
 "name": "default.web",
 "type": "sidecar",
 "mesh": "default",
 "state": "refused",
 "since": "2000-01-01T00:01:00Z",
 "reason": "signing key 3 is gone",
 "refusal": {
  "since": "2000-01-01T00:01:00Z",
  "time": "2000-01-01T00:01:00Z",
  "count": 1,
  "reason": "signing key 3 is gone",
  "proved": true
 },
 "inStep": false,
 "revisions": {
  "desired": 9,
  "sent": 9,
  "acknowledged": 8
 },
 "rejected": [
  {
   "type": "Cluster",
   "resources": [
    "c"
   ],
   "error": "no such filter"
  }
 ],
 "versions": {
  "envoy": "1.39.3",
  "module": "m1",
  "agent": "1.0"
 },
 "tokenExpires": "2000-01-01T01:00:00Z",
 "filters": {
  "known": 0,
  "linked": 0
 }
}`

// TestDocuments: a node is shown as in step, rejecting or refused.
func TestDocuments(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.insights.Account = func(node string) (insight.Last, bool) {
			a, ok := r.snaps.Account(node)
			return insight.Last{Acknowledged: a.Acknowledged, Rejected: nodes.Rejected(a.Rejected)}, ok
		}
		r.filters["default.web"] = nodes.Filters{Known: 1, Linked: 1}
		r.publish("default.web", 7)
		sub := r.connect("default.web")
		sub.Confirm(sub.State())
		r.snaps.Announce(snapshot.Publication{Scope: "sidecar of default", Revision: 8})
		d, err := r.Get("default.web")
		if diff := cmp.Diff(inStep, shown(t, d)); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
		time.Sleep(time.Minute) // virtual time
		r.publish("default.web", 9)
		r.insights.Sent(server.Event{Node: "default.web", Stream: 1, Type: resource.Cluster, Revision: 9})
		if d, _ = r.Get("default.web"); d.InStep || d.Revisions != (nodes.Revisions{Desired: 9, Sent: 9, Acknowledged: 8}) {
			t.Errorf("it is waited for: %+v", d)
		}
		sub.Reject([]snapshot.Rejection{{Type: resource.Cluster, Resources: []string{"c"}, Error: "no such filter", Revision: 9}})
		sub.Confirm(sub.State())
		if d, _ = r.Get("default.web"); d.InStep || len(d.Rejected) != 1 || d.Revisions.Acknowledged != 8 {
			t.Errorf("it refuses: %+v", d)
		}
		delete(r.filters, "default.web")
		r.leave("default.web")
		r.insights.TurnedAway("default.web", "signing key 3 is gone", true)
		d, _ = r.Get("default.web")
		if diff := cmp.Diff(rejecting, shown(t, d)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestReasons: a node that is away is listed with a reason: it never came, it left, or only
// its filters are remembered. One with a linked filter and without a stream is connected.
func TestReasons(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.insights.Expect("default.never")
		r.connect("cp/default/gw")
		r.leave("cp/default/gw")
		r.filters["cp/default/lost"] = nodes.Filters{Known: 2}
		r.filters["cp/default/service"] = nodes.Filters{Known: 2, Linked: 1}
		r.filters[""] = nodes.Filters{Known: 5}
		var got []string
		for _, d := range r.List(nodes.Query{}).Nodes {
			got = append(got, fmt.Sprintf("%s %s %s%s %s: %s", d.Name, d.Type, d.Mesh, d.ControlPlane, d.State, d.Reason))
			if d.Revisions.Desired != 99 {
				t.Errorf("%s should have %d", d.Name, d.Revisions.Desired)
			}
		}
		want := []string{
			"cp/default/gw gateway default away: it left, or its connection broke",
			"cp/default/lost gateway default away: only filters of it are remembered, which may answer from what they know",
			"cp/default/service gateway default connected: it takes no configuration from here, and its filter is linked: an authorization service, or an Envoy that is configured elsewhere",
			"default.never sidecar default away: it was never connected",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		n, names := r.Away(func(scope string) bool { return scope == "sidecar of default" })
		if n != 1 || len(names) != 1 || names[0] != "default.never" {
			t.Errorf("%d away in the mesh: %v", n, names)
		}
		if n, _ := r.Away(func(string) bool { return true }); n != 2 {
			t.Errorf("%d away", n)
		}
		// The counts must include every node that the list shows.
		counts := map[string]map[string]int{"gateway": {"connected": 1, "away": 2, "refused": 0}, "sidecar": {"connected": 0, "away": 1, "refused": 0}, "ingress": {"connected": 0, "away": 0, "refused": 0}, "egress": {"connected": 0, "away": 0, "refused": 0}}
		if diff := cmp.Diff(counts, r.Counts()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestPages: the list is read in pages, by position or by name, and can be filtered.
func TestPages(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 10 {
			r.insights.Expect(fmt.Sprintf("default.p-%d", i))
		}
		r.connect("default.p-3")
		r.insights.TurnedAway("default.p-4", "expired", true)
		for name, tc := range map[string]struct {
			q     nodes.Query
			want  string
			total int
			more  bool
		}{
			"all":              {nodes.Query{}, "0123456789", 10, false},
			"the first":        {nodes.Query{Size: 3}, "012", 10, true},
			"some by place":    {nodes.Query{Size: 3, Offset: 7}, "789", 10, false},
			"beyond the end":   {nodes.Query{Size: 3, Offset: 70}, "", 10, false},
			"some by name":     {nodes.Query{Size: 3, After: "default.p-5"}, "678", 10, true},
			"who is connected": {nodes.Query{State: insight.Connected}, "3", 1, false},
			"who is away":      {nodes.Query{State: insight.Away, Size: 4}, "0124", 9, true},
			"who is refused":   {nodes.Query{State: insight.Refused}, "4", 1, false},
			"by a name":        {nodes.Query{Part: "-7"}, "7", 1, false},
		} {
			p := r.List(tc.q)
			got := ""
			for _, d := range p.Nodes {
				got += strings.TrimPrefix(d.Name, "default.p-")
			}
			if got != tc.want || p.Total != tc.total || p.More != tc.more {
				t.Errorf("%s: %s of %d, more %v", name, got, p.Total, p.More)
			}
		}
	})
}

// TestRemove: a node that is gone for good is removed with everything, but not while it is
// connected.
func TestRemove(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		sub := r.connect("default.web")
		if err := r.Remove(t.Context(), "default.web", nil); !fault.Is(err, fault.Conflict) {
			t.Errorf("while it is connected: %v", err)
		}
		r.leave("default.web")
		sub.Close()
		r.filters["default.web"] = nodes.Filters{Known: 1, Linked: 1}
		if err := r.Remove(t.Context(), "default.web", nil); !fault.Is(err, fault.Conflict) || r.gone != nil {
			t.Errorf("while a filter is linked: %v", err)
		}
		r.filters["default.web"] = nodes.Filters{Known: 1}
		r.fails = errors.New("the disk is full")
		if err := r.Remove(t.Context(), "default.web", nil); !errors.Is(err, r.fails) {
			t.Errorf("what fails: %v", err)
		}
		if _, err := r.Get("default.web"); err != nil {
			t.Errorf("after a failure: %v", err)
		}
		r.fails = nil
		if err := r.Remove(t.Context(), "default.web", nil); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"default.web", "default.never", "", "x"} {
			if err := r.Remove(t.Context(), name, nil); !fault.Is(err, fault.NotFound) {
				t.Errorf("%q: %v", name, err)
			}
			if _, err := r.Get(name); !fault.Is(err, fault.NotFound) {
				t.Errorf("%q: %v", name, err)
			}
		}
		r.filters["cp/default/lost"] = nodes.Filters{Known: 1}
		if err := r.Remove(t.Context(), "cp/default/lost", nil); err != nil {
			t.Errorf("one of which filters are left: %v", err)
		}
		if diff := cmp.Diff([]string{"default.web", "default.web", "cp/default/lost"}, r.gone); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"sidecar default web"}, r.deleted); diff != "" {
			t.Error(diff)
		}
	})
}

// TestRemoveFormer: former processes of a node are forgotten, but the node itself and what
// is stored of it stay, no matter what the revoker answers. Without remembered filters there
// is nothing to do. An unknown node is not found.
func TestRemoveFormer(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.connect("default.web")
		if err := r.RemoveFormer("default.web"); err != nil || r.former != nil {
			t.Errorf("nobody counts on a filter of it: %v, asked for %v", err, r.former)
		}
		r.filters["default.web"] = nodes.Filters{Known: 2, Linked: 1}
		r.filters["cp/default/away"] = nodes.Filters{Known: 1}
		r.filters[""] = nodes.Filters{Known: 1} // filters beyond the bound, which have no node
		if err := r.RemoveFormer("default.web"); err != nil {
			t.Error(err)
		}
		r.fails = fault.New(fault.Conflict, "none is connected")
		if err := r.RemoveFormer("cp/default/away"); !fault.Is(err, fault.Conflict) {
			t.Errorf("none of it is linked: %v", err)
		}
		r.fails = nil
		for _, name := range []string{"", "default.never"} {
			if err := r.RemoveFormer(name); !fault.Is(err, fault.NotFound) {
				t.Errorf("%q: %v", name, err)
			}
		}
		if diff := cmp.Diff([]string{"default.web", "cp/default/away"}, r.former); diff != "" {
			t.Error(diff)
		}
		if d, err := r.Get("default.web"); err != nil || d.State != insight.Connected || r.gone != nil || r.deleted != nil {
			t.Errorf("more than filters is gone: %+v, %v, gone %v, deleted %v", d, err, r.gone, r.deleted)
		}
		r.leave("default.web")
	})
}

// TestRemovedWhileItConnects: a conflict means that nothing was done. A node that connects
// during its removal does not undo it: it was removed, and counts as new.
func TestRemovedWhileItConnects(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.connect("default.web")
		r.leave("default.web")
		comes := r.Registry.Delete
		r.Registry.Delete = func(ctx context.Context, n insight.Node, seen *model.Resource) (bool, error) {
			r.connect("default.web")
			return comes(ctx, n, seen)
		}
		if err := r.Remove(t.Context(), "default.web", nil); err != nil {
			t.Errorf("its Dataplane is deleted, and the answer is %v", err)
		}
		if d, err := r.Get("default.web"); err != nil || d.State != insight.Connected || len(r.deleted) != 1 {
			t.Errorf("%+v, %v, deleted %v", d, err, r.deleted)
		}
		r.leave("default.web")
	})
}

// TestRegisteredWhileItIsRemoved: what is stored is looked at before anything is done. A kind that may not be
// deleted stops the removal then, and a node that registers later is listed as before.
func TestRegisteredWhileItIsRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.insights.Expect("default.web")
		r.stored = &model.Resource{Kind: mesh.Dataplanes, Name: "web"}
		r.filters["default.web"] = nodes.Filters{Known: 1}
		refused := errors.New("not here")
		if err := r.Remove(t.Context(), "default.web", func(k *model.Kind) error {
			if k == mesh.Dataplanes {
				return refused
			}
			return nil
		}); !errors.Is(err, refused) || r.gone != nil || r.deleted != nil {
			t.Errorf("%v, gone %v, deleted %v", err, r.gone, r.deleted)
		}
		gone := r.Gone
		r.Gone = func(node string) error {
			r.stored = &model.Resource{Kind: mesh.Dataplanes, Name: "web"} // of another agent
			return gone(node)
		}
		if err := r.Remove(t.Context(), "default.web", nil); err != nil {
			t.Error(err)
		}
		if _, err := r.Get("default.web"); err != nil {
			t.Errorf("it has registered anew: %v", err)
		}
	})
}

// TestAwait: a watcher learns about a change within a moment, about many changes together
// once, and about none when the time is up.
func TestAwait(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		took := func(mark string, change func()) time.Duration {
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			done := make(chan struct{})
			go func() { defer close(done); r.Await(ctx, mark) }()
			synctest.Wait()
			change()
			<-done
			return time.Since(begun)
		}
		mark := r.List(nodes.Query{}).Mark
		if d := took(mark, func() {}); d != time.Minute {
			t.Errorf("without a change it takes %v", d)
		}
		for what, change := range map[string]func(){
			"connections": func() { r.connect("default.a"); r.connect("default.b") },
			"progress":    func() { r.publish("default.a", 7) },
		} {
			mark := r.List(nodes.Query{}).Mark
			if d := took(mark, change); d != 200*time.Millisecond || r.List(nodes.Query{}).Mark == mark {
				t.Errorf("%s take %v", what, d)
			}
		}
		if d := took("of another process", func() {}); d != 200*time.Millisecond {
			t.Errorf("a mark of another process takes %v", d)
		}
		for _, s := range r.streams {
			s.Close()
		}
	})
}

// TestManyProblems: at most five problems of a node are shown, with the number of the
// others.
func TestManyProblems(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		all := []string{"a", "b", "c", "d", "e", "f", "g"}
		r.Options.Problems = func(insight.Node) []string { return all }
		r.publish("m.web", 1)
		r.connect("m.web")
		n, err := r.Get("m.web")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"a", "b", "c", "d", "e", "and 2 more"}, n.Problems); d != "" {
			t.Errorf("problems (-want +got):\n%s", d)
		}
		if all[5] != "f" {
			t.Error("the list of whoever answered was changed")
		}
	})
}

// BenchmarkList reads a page of 100 of 10,000 nodes.
func BenchmarkList(b *testing.B) {
	known, err := insight.Open(b.Context(), insight.Options{Store: memstore.NewStatus(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = known.Close(context.Background()) }()
	for i := range 10_000 {
		known.Expect(fmt.Sprintf("default.p-%05d", i))
	}
	r := nodes.New(nodes.Options{
		Insights: known, Snapshots: snapshot.New(), Latest: func() uint64 { return 1 }, Scope: func(_, name string) string { return name },
	})
	b.ReportAllocs()
	for b.Loop() {
		if p := r.List(nodes.Query{Size: 100, Offset: 5000}); p.Total != 10_000 || len(p.Nodes) != 100 {
			b.Fatal(p.Total)
		}
	}
}

// TestScopes: an id says where a node belongs. A proxy of a zone belongs to no mesh, whatever its
// name.
func TestScopes(t *testing.T) {
	for id, want := range map[string][3]string{
		"default.web":         {"sidecar", "default", ""},
		"default.web.v1":      {"sidecar", "default", ""},
		"cp/default/gw.1":     {"gateway", "", "default"},
		"zone/ingress/in":     {"ingress", "", ""},
		"zone/ingress/shop.a": {"ingress", "", ""},
		"zone/egress/shop.a":  {"egress", "", ""},
		"nobody":              {"sidecar", "", ""},
	} {
		meshName, controlPlane := nodes.ScopeOf(id)
		if got := [3]string{nodes.TypeOf(id), meshName, controlPlane}; got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

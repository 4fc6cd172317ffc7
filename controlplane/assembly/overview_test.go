package assembly

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// fleet is a mesh of connected proxies without an ADS server.
type fleet struct {
	cp    *ControlPlane
	proxy []*snapshot.Subscription
}

// reports are insights that know nothing.
type reports struct{}

func (reports) Read(_ context.Context, _ *model.Kind, _, _ string) (any, bool, error) {
	return nil, false, nil
}

func startFleet(tb testing.TB, proxies int) *fleet {
	tb.Helper()
	return startFleetWith(tb, proxies, all.Policies())
}

func startFleetWith(tb testing.TB, proxies int, policies []*policy.Policy) *fleet {
	tb.Helper()
	log := slog.New(slog.DiscardHandler)
	cp := &ControlPlane{Log: log, store: memstore.New(), snapshots: snapshot.New()}
	cp.views = view.New(cp.store, all.Kinds(), log)
	cp.loop = publish.New(publish.Options{Views: cp.views, Publisher: cp.snapshots, Policies: policies, Kinds: AllKinds(), Latest: cp.store.Revision, Log: log})
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- cp.loop.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		<-ran
		cp.views.Close()
		_ = cp.store.Close()
	})
	known, err := insight.Open(ctx, insight.Options{Store: memstore.NewStatus(), Log: log})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = known.Close(context.Background()) })
	cp.mesh.insights = known
	cp.nodes = nodes.New(nodes.Options{Insights: known, Snapshots: cp.snapshots, Scope: nodeScope, Latest: cp.store.Revision, Problems: cp.unapplied})
	f := &fleet{cp: cp}
	f.write(tb, func(tx store.Tx) error {
		if _, err := tx.Create(&model.Resource{Kind: mesh.Meshes, Name: mesh.Default, Spec: &mesh.Mesh{}}); err != nil {
			return err
		}
		for i := range proxies {
			if _, err := tx.Create(&model.Resource{Kind: mesh.Dataplanes, Scope: mesh.Default, Name: name(i), Spec: webAt(i)}); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range proxies {
		if _, err := cp.loop.Connect(ctx, mesh.NodeID(mesh.Default, name(i)), false); err != nil {
			tb.Fatal(err)
		}
		sub := cp.snapshots.Subscribe(mesh.NodeID(mesh.Default, name(i)))
		sub.Confirm(sub.State())
		f.proxy = append(f.proxy, sub)
	}
	return f
}

func name(i int) string { return fmt.Sprintf("web-%04d", i) }

func webAt(i int) *mesh.Dataplane {
	return &mesh.Dataplane{Networking: &mesh.Networking{
		Address: fmt.Sprintf("127.1.%d.%d", i/250, i%250+1),
		Inbound: []mesh.Inbound{{Port: 8080, Tags: mesh.Tags{mesh.TagService: "web", mesh.TagProtocol: "http"}}},
	}}
}

func (f *fleet) write(tb testing.TB, fn func(store.Tx) error) uint64 {
	tb.Helper()
	c, err := f.cp.store.Update(context.Background(), model.Config, fn)
	if err != nil {
		tb.Fatal(err)
	}
	return c.Revision
}

// settle waits until a revision is planned and published.
func (f *fleet) settle(t *testing.T, revision uint64) {
	t.Helper()
	if err := f.cp.loop.Settled(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
}

// revision asks for the document of a revision.
func (f *fleet) revision(t *testing.T, revision uint64, wait time.Duration) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	doc, err := progress{f.cp.loop, f.cp.snapshots, f.cp.nodes, f.cp.store.Revision}.Wait(ctx, revision, allSeen)
	if fault.Is(err, fault.NotFound) {
		return err.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The answer covers only the scopes that the write concerned.
func TestRevisionsConcernScopes(t *testing.T) {
	f := startFleet(t, 2)
	other := f.write(t, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: mesh.Meshes, Name: "other", Spec: &mesh.Mesh{}})
		return err
	})
	want := fmt.Sprintf(`{"revision":%d,"published":%d,"proxies":{"acknowledged":0,"waiting":[],"rejected":[],"away":{"count":0,"names":[]}}}`, other, other)
	if d := cmp.Diff(want, f.revision(t, other, conditionPatience)); d != "" {
		t.Errorf("a write that concerned no proxy (-want +got):\n%s", d)
	}
	mine := f.write(t, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: mesh.Dataplanes, Scope: mesh.Default, Name: "api", Spec: webAt(9)})
		return err
	})
	want = fmt.Sprintf(`{"revision":%d,"published":%d,"proxies":{"acknowledged":2,"waiting":[],"rejected":[],"away":{"count":0,"names":[]}}}`, mine, mine)
	if d := cmp.Diff(want, f.revision(t, mine, conditionPatience)); d != "" {
		t.Errorf("a write that concerned both (-want +got):\n%s", d)
	}
	// Proxies that are away are counted, even in scopes where nobody is connected.
	for _, node := range []string{"default.api", "other.web", "cp/default/gw"} {
		f.cp.mesh.insights.Expect(node)
	}
	want = fmt.Sprintf(`{"revision":%d,"published":%d,"proxies":{"acknowledged":2,"waiting":[],"rejected":[],"away":{"count":1,"names":["default.api"]}}}`, mine, mine)
	if d := cmp.Diff(want, f.revision(t, mine, conditionPatience)); d != "" {
		t.Errorf("a proxy that is away (-want +got):\n%s", d)
	}
	want = fmt.Sprintf(`{"revision":%d,"published":%d,"proxies":{"acknowledged":0,"waiting":[],"rejected":[],"away":{"count":1,"names":["other.web"]}}}`, other, other)
	if d := cmp.Diff(want, f.revision(t, other, conditionPatience)); d != "" {
		t.Errorf("a mesh to which nobody is connected (-want +got):\n%s", d)
	}
	f.cp.mesh.insights.Remove("default.api")
	f.proxy[0].Reject([]snapshot.Rejection{{Type: resource.Route, Error: "no", Revision: mine}})
	want = fmt.Sprintf(`{"revision":%d,"published":%d,"proxies":{"acknowledged":1,"waiting":[],"rejected":[{"name":"default.web-0000","error":"no"}],"away":{"count":0,"names":[]}}}`, mine, mine)
	if d := cmp.Diff(want, f.revision(t, mine, conditionPatience)); d != "" {
		t.Errorf("a refusal (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"the proxy refused " + string(resource.Route) + ": no"}, problems{f.cp}.Of(mesh.Default, name(0))); d != "" {
		t.Errorf("problems (-want +got):\n%s", d)
	}
	// The request waits for a revision that does not exist yet; then it names the newest one.
	want = fmt.Sprintf("Revision %d does not exist: the newest is %d", mine+1, mine)
	if d := cmp.Diff(want, f.revision(t, mine+1, 0)); d != "" {
		t.Errorf("a revision to come (-want +got):\n%s", d)
	}
	answer := make(chan string, 1)
	go func() { answer <- f.revision(t, mine+1, conditionPatience) }()
	f.write(t, func(tx store.Tx) error { return tx.Delete(mesh.Dataplanes, mesh.Default, "api", 0) })
	if got := <-answer; got == want {
		t.Errorf("the answer for a revision that came: %s", got)
	}
}

// TestUnservedOutbound: an outbound to a service that nobody serves is an error in the
// overview until somebody serves it. It does not count as a failure, because services may be
// created in any order.
func TestUnservedOutbound(t *testing.T) {
	f := startFleet(t, 2)
	rev := f.write(t, func(tx store.Tx) error {
		d := webAt(0)
		d.Networking.Outbound = []mesh.Outbound{{Port: 9000, Service: "web"}, {Port: 9001, Service: "bakend"}}
		_, err := tx.Update(&model.Resource{Kind: mesh.Dataplanes, Scope: mesh.Default, Name: name(0), Spec: d}, 0)
		return err
	})
	f.settle(t, rev)
	if d := cmp.Diff([]string{`outbound:127.0.0.1:9001: no dataplane of the mesh serves "bakend"`}, problems{f.cp}.Of(mesh.Default, name(0))); d != "" {
		t.Errorf("problems (-want +got):\n%s", d)
	}
	if got := append(problems{f.cp}.Of(mesh.Default, name(1)), fmt.Sprint(f.cp.loop.Failures())); len(got) != 1 || got[0] != "[]" {
		t.Errorf("others, and failures: %q", got)
	}
	rev = f.write(t, func(tx store.Tx) error {
		d := webAt(9)
		d.Networking.Inbound[0].Tags[mesh.TagService] = "bakend"
		_, err := tx.Create(&model.Resource{Kind: mesh.Dataplanes, Scope: mesh.Default, Name: "late", Spec: d})
		return err
	})
	f.settle(t, rev)
	if got := (problems{f.cp}).Of(mesh.Default, name(0)); got != nil {
		t.Errorf("when it has come: %q", got)
	}
}

// TestUnapplied: a policy that cannot be applied is a problem of the nodes that it was chosen
// for, until it can be applied. A service that does not exist yet is not a problem.
func TestUnapplied(t *testing.T) {
	policies := all.Policies()
	for i, p := range policies {
		if p.Kind == trafficroute.Kind {
			broken := *p
			broken.Split = func(*policy.Selection, mesh.Tags) (*draft.Split, error) { return nil, errors.New("a mistake") }
			policies[i] = &broken
		}
	}
	f := startFleetWith(t, 2, policies)
	for i := range f.proxy {
		f.cp.mesh.insights.Expect(mesh.NodeID(mesh.Default, name(i)))
	}
	problems := func(fn func(store.Tx) error) (of [][]string) {
		t.Helper()
		f.settle(t, f.write(t, fn))
		for _, n := range f.cp.nodes.List(nodes.Query{}).Nodes {
			of = append(of, n.Problems)
		}
		return of
	}
	got := problems(func(tx store.Tx) error {
		d := webAt(0)
		d.Networking.Outbound = []mesh.Outbound{{Port: 9000, Service: "web"}, {Port: 9001, Service: "bakend"}}
		_, err := tx.Update(&model.Resource{Kind: mesh.Dataplanes, Scope: mesh.Default, Name: name(0), Spec: d}, 0)
		return err
	})
	if d := cmp.Diff([][]string{nil, nil}, got); d != "" {
		t.Errorf("before the policy (-want +got):\n%s", d)
	}
	route := &model.Resource{Kind: trafficroute.Kind, Scope: mesh.Default, Name: "web", Spec: &trafficroute.Spec{
		Connection: mesh.Connection{
			Sources:      []mesh.Selector{{Match: mesh.Tags{mesh.TagService: mesh.AnyValue}}},
			Destinations: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "web"}}},
		},
		Conf: &trafficroute.Conf{Destination: mesh.Tags{mesh.TagService: "web"}},
	}}
	got = problems(func(tx store.Tx) error { _, err := tx.Create(route); return err })
	if d := cmp.Diff([][]string{{"outbound:web: a mistake"}, nil}, got); d != "" {
		t.Errorf("by the policy (-want +got):\n%s", d)
	}
	got = problems(func(tx store.Tx) error { return tx.Delete(trafficroute.Kind, mesh.Default, "web", 0) })
	if d := cmp.Diff([][]string{nil, nil}, got); d != "" {
		t.Errorf("without it again (-want +got):\n%s", d)
	}
}

// BenchmarkOverviews lists 1,000 dataplanes with their insights.
func BenchmarkOverviews(b *testing.B) {
	f := startFleet(b, 1000)
	h := meshapi.Handler(meshapi.Options{
		Kinds: mesh.Kinds(), Store: f.cp.store, Insights: reports{}, Problems: problems{f.cp},
	})
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "http://127.0.0.1/meshes/default/dataplanes+insights?size=1000", nil))
		if w.Code != http.StatusOK {
			b.Fatal(w.Body.String())
		}
	}
}

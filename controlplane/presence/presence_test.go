package presence

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/probing"
)

// tokens knows tokens that are the ids of their nodes. All but gone has a Dataplane.
type tokens struct{}

func (tokens) Authenticate(_ context.Context, node, token string) (time.Time, error) {
	switch {
	case !strings.Contains(token, "."):
		return time.Time{}, fault.New(fault.Denied, "no")
	case node != token:
		return time.Time{}, fault.New(fault.Forbidden, "no")
	}
	return time.Time{}, nil
}

// world is a server with the dataplanes web-1 and web-2 of a mesh. Each has an inbound at port 80
// that is probed and one at 81 that is not, and web-1 has an ignored one at 82.
type world struct {
	*Server
	gate *admit.Gate
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := memstore.New()
	t.Cleanup(func() { _ = s.Close() })
	_, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: mesh.Meshes, Name: "default", Spec: &mesh.Mesh{}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	gate := admit.New(s, &admittest.Revoker{}, mesh.Kinds(), time.Now)
	w := &world{&Server{Tokens: tokens{}, Store: s, Documents: gate, Log: slog.New(slog.DiscardHandler)}, gate}
	probe := func() *mesh.ServiceProbe { return &mesh.ServiceProbe{TCP: &mesh.TCPProbe{}} }
	tags := mesh.Tags{mesh.TagService: "web"}
	for i, name := range []string{"web-1", "web-2"} {
		n := &mesh.Networking{Address: fmt.Sprintf("10.0.0.%d", i+1), Inbound: []mesh.Inbound{{Port: 80, Tags: tags, ServiceProbe: probe()}, {Port: 81, Tags: tags}}}
		if i == 0 {
			n.Inbound = append(n.Inbound, mesh.Inbound{Port: 82, Tags: tags, ServiceProbe: probe(), State: mesh.StateIgnored}, mesh.Inbound{Port: 80, Address: "10.0.0.9", Tags: tags, ServiceProbe: probe()})
		}
		w.put(t, name, &mesh.Dataplane{Networking: n})
	}
	return w
}

func (w *world) put(t *testing.T, name string, d *mesh.Dataplane) {
	t.Helper()
	if _, _, err := w.gate.PutDocument(model.WithActor(t.Context(), model.User("operator")), mesh.Dataplanes, "default", name, d); err != nil {
		t.Fatal(err)
	}
}

func (w *world) get(t *testing.T, name string) *model.Resource {
	t.Helper()
	var out *model.Resource
	err := w.Store.View(t.Context(), func(r store.Reader) (err error) {
		out, err = r.Get(mesh.Dataplanes, "default", name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// readiness are the states of all inbounds of both dataplanes.
func (w *world) readiness(t *testing.T) (out []bool) {
	t.Helper()
	for _, name := range []string{"web-1", "web-2"} {
		for _, in := range w.get(t, name).Spec.(*mesh.Dataplane).Networking.Inbound {
			out = append(out, in.IsReady())
		}
	}
	return out
}

func (w *world) report(token, node, body string) int {
	r := httptest.NewRequest(http.MethodPost, probing.Path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set(contract.NodeHeader, node)
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec.Code
}

func of(port int, ready bool) string {
	return fmt.Sprintf(`{"inbounds":[{"port":%d,"ready":%t}]}`, port, ready)
}

// TestReports: what a node says of its own probed inbounds is stored, and nothing else is.
func TestReports(t *testing.T) {
	const one, two = "default.web-1", "default.web-2"
	fresh := []bool{false, true, false, false, false, true}
	for name, tt := range map[string]struct {
		token, node, body string
		code              int
		want              []bool
	}{
		"its own":                        {one, one, of(80, true), 204, []bool{true, true, false, false, false, true}},
		"its own at another address":     {one, one, `{"inbounds":[{"address":"10.0.0.9","port":80,"ready":true}]}`, 204, []bool{false, true, false, true, false, true}},
		"several":                        {one, one, `{"inbounds":[{"port":80,"ready":true},{"address":"10.0.0.9","port":80,"ready":true}]}`, 204, []bool{true, true, false, true, false, true}},
		"what is stored already":         {one, one, of(80, false), 204, fresh},
		"nothing":                        {one, one, `{}`, 204, fresh},
		"another node with the token":    {one, two, of(80, true), 403, fresh},
		"no good token":                  {"bad", one, of(80, true), 401, fresh},
		"no token":                       {"", one, of(80, true), 401, fresh},
		"another node's inbound":         {two, two, `{"inbounds":[{"address":"10.0.0.9","port":80,"ready":true}]}`, 409, fresh},
		"an inbound that is not probed":  {one, one, of(81, false), 409, fresh},
		"one that is ignored":            {one, one, of(82, true), 409, fresh},
		"one that is not there":          {one, one, of(83, true), 409, fresh},
		"one that isn't and one that is": {one, one, `{"inbounds":[{"port":83,"ready":true},{"port":80,"ready":true}]}`, 409, []bool{true, true, false, false, false, true}},
		"an instance nobody asks for":    {one, one, `{"instance":"a","inbounds":[{"port":80,"ready":true}]}`, 204, []bool{true, true, false, false, false, true}},
		"a node without a dataplane":     {"default.gone", "default.gone", of(80, true), 404, fresh},
		"a port that is none":            {one, one, of(65536+80, true), 400, fresh},
		"another dataplane in the body":  {one, one, `{"inbounds":[{"port":80,"ready":true}],"name":"web-2"}`, 400, fresh},
		"more after the end":             {one, one, of(80, true) + "{}", 400, fresh},
		"too much":                       {one, one, `{"inbounds":[` + strings.Repeat(" ", probing.MaxReport) + `]}`, 400, fresh},
		"too many":                       {one, one, `{"inbounds":[{"port":80,"ready":true}` + strings.Repeat(`,{"port":80}`, probing.Max) + `]}`, 400, fresh},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if code := w.report(tt.token, tt.node, tt.body); code != tt.code {
				t.Error(code)
			}
			if diff := cmp.Diff(tt.want, w.readiness(t)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	rec := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, probing.Path, nil)
	r.Header.Set("Authorization", "Bearer "+one)
	r.Header.Set(contract.NodeHeader, one)
	if newWorld(t).ServeHTTP(rec, r); rec.Code != http.StatusMethodNotAllowed {
		t.Error(rec.Code)
	}
}

// TestWritesOnlyChanges: a report that says nothing new leaves the dataplane as it is.
func TestWritesOnlyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var versions []uint64
		for _, ready := range []bool{true, true, false, false, true} {
			time.Sleep(between) // virtual, as all in this file
			if code := w.report("default.web-1", "default.web-1", of(80, ready)); code != http.StatusNoContent {
				t.Fatal(code)
			}
			versions = append(versions, w.get(t, "web-1").Version)
		}
		if diff := cmp.Diff([]uint64{2, 2, 3, 3, 4}, versions); diff != "" {
			t.Error(diff)
		}
		w.Documents = amender(func() error { t.Error("it is written again"); return nil })
		if code := w.report("default.web-1", "default.web-1", of(80, true)); code != http.StatusNoContent {
			t.Error(code)
		}
	})
}

// TestPace: a node writes once in a while and no more, which costs no other node anything. Reports
// that say nothing new do not count. Nobody remembers nodes that wrote long ago.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const one, two = "default.web-1", "default.web-2"
		for i, step := range []struct {
			node  string
			ready bool
			after time.Duration
			code  int
		}{
			{one, true, 0, 204},
			{one, false, between - 1, 429},
			{one, true, 0, 204}, // is stored
			{two, true, 0, 204},
			{one, false, 1, 204},
			{two, false, between - 2, 429},
			{one, true, 0, 429},
			{two, false, 1, 204},
			{one, true, 1, 204},
		} {
			time.Sleep(step.after)
			if code := w.report(step.node, step.node, of(80, step.ready)); code != step.code {
				t.Errorf("step %d: %d", i, code)
			}
		}
		var p pace
		for i := range 10_000 {
			p.may(strconv.Itoa(i), time.Now())
			time.Sleep(between / 10)
		}
		if n := len(p.recent) + len(p.earlier); n > 21 {
			t.Error("it remembers", n)
		}
	})
}

// TestOtherAgent: only the agent that has registered a dataplane reports about it, also if it has
// done so while the report of another one was on the way. Who runs what an operator has written is
// for the operator.
func TestOtherAgent(t *testing.T) {
	registered := func(owner, instance string) *mesh.Dataplane {
		d := &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Inbound: []mesh.Inbound{
			{Port: 80, Tags: mesh.Tags{mesh.TagService: "web"}, ServiceProbe: &mesh.ServiceProbe{TCP: &mesh.TCPProbe{}}},
		}}}
		d.SetLabels(map[string]string{mesh.LabelOwner: owner, mesh.LabelInstance: instance})
		return d
	}
	for name, tt := range map[string]struct {
		owner, instance, reports string
		code                     int
	}{
		"itself":                  {mesh.OwnerAgent, "a", "a", 204},
		"the one before":          {mesh.OwnerAgent, "b", "a", 409},
		"one that does not say":   {mesh.OwnerAgent, "b", "", 409},
		"an operator's":           {"", "b", "a", 204},
		"of an Envoy without one": {mesh.OwnerProxy, "", "a", 204},
		"somebody else's label":   {"somebody", "b", "a", 204},
	} {
		t.Run(name, func(t *testing.T) {
			for _, meanwhile := range []bool{false, true} {
				w := newWorld(t)
				if meanwhile {
					w.Documents = &interrupted{gate: w.gate, before: func() { w.put(t, "web-1", registered(tt.owner, tt.instance)) }}
				} else {
					w.put(t, "web-1", registered(tt.owner, tt.instance))
				}
				code := w.report("default.web-1", "default.web-1", fmt.Sprintf(`{"instance":%q,"inbounds":[{"port":80,"ready":true}]}`, tt.reports))
				if got := w.readiness(t)[0]; code != tt.code || got != (tt.code == 204) {
					t.Errorf("meanwhile %t: %d, ready %t", meanwhile, code, got)
				}
			}
		})
	}
}

// TestStricterRules: a dataplane that its mesh, or this version, would not take today says
// nevertheless whether its workload is there.
func TestStricterRules(t *testing.T) {
	ctx := model.WithActor(t.Context(), model.User("operator"))
	for name, stricter := range map[string]func(t *testing.T, w *world){
		"of the mesh": func(t *testing.T, w *world) {
			m := &mesh.Mesh{Constraints: &mesh.Constraints{DataplaneProxy: &mesh.Membership{Requirements: []mesh.TagRule{{Tags: mesh.Tags{"team": "*"}}}}}}
			if _, _, err := w.gate.PutDocument(ctx, mesh.Meshes, "", "default", m); err != nil {
				t.Fatal(err)
			}
		},
		"of this version": func(t *testing.T, w *world) {
			if _, err := w.Store.Update(ctx, model.Config, func(tx store.Tx) error {
				d := *w.get(t, "web-1").Spec.(*mesh.Dataplane)
				_, err := tx.Update(&model.Resource{Kind: mesh.Dataplanes, Scope: "default", Name: "web-1", Spec: d.WithInbounds(func(in *mesh.Inbound) { in.Tags = mesh.Tags{mesh.TagService: "web", "bad key!": "v"} })}, 0)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			stricter(t, w)
			if _, _, err := w.gate.PutDocument(ctx, mesh.Dataplanes, "default", "web-1", w.get(t, "web-1").Spec); !fault.Is(err, fault.Invalid) {
				t.Fatal("it would be taken:", err)
			}
			if code := w.report("default.web-1", "default.web-1", of(80, true)); code != http.StatusNoContent || !w.readiness(t)[0] {
				t.Error(code)
			}
		})
	}
}

// TestUserWritesBetween: a user who writes the dataplane and says nothing of its readiness changes
// nothing of it unless it moves, and a report is judged over what a user has written meanwhile.
func TestUserWritesBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.report("default.web-1", "default.web-1", of(80, true))
		next := func(address string) *mesh.Dataplane {
			return &mesh.Dataplane{Networking: &mesh.Networking{Address: address, Inbound: []mesh.Inbound{
				{Port: 80, Tags: mesh.Tags{mesh.TagService: "web", "version": "2"}, ServiceProbe: &mesh.ServiceProbe{TCP: &mesh.TCPProbe{}}},
			}}}
		}
		w.put(t, "web-1", next("10.0.0.1"))
		if in := w.get(t, "web-1").Spec.(*mesh.Dataplane).Inbound("", 80); !in.IsReady() || in.Health == nil || in.Tags["version"] != "2" {
			t.Errorf("%+v", in)
		}
		time.Sleep(between)
		w.Documents = &interrupted{gate: w.gate, before: func() {
			w.put(t, "web-1", next("10.0.0.1").WithInbounds(func(in *mesh.Inbound) { in.Name = "renamed" }))
		}}
		if code := w.report("default.web-1", "default.web-1", of(80, false)); code != http.StatusNoContent {
			t.Error(code)
		}
		if in := w.get(t, "web-1").Spec.(*mesh.Dataplane).Inbound("", 80); in.IsReady() || in.Name != "renamed" {
			t.Errorf("%+v", in)
		}
		time.Sleep(between)
		w.report("default.web-1", "default.web-1", of(80, true))
		w.put(t, "web-1", next("10.0.0.7"))
		if in := w.get(t, "web-1").Spec.(*mesh.Dataplane).Inbound("", 80); in.IsReady() {
			t.Error("nobody knows what is at the other address")
		}
	})
}

// interrupted has something written before the first write.
type interrupted struct {
	gate   *admit.Gate
	before func()
}

func (i *interrupted) AmendDocument(ctx context.Context, k *model.Kind, scope, name string, change func(*model.Resource) (any, error)) (admit.Outcome, error) {
	if before := i.before; before != nil {
		i.before = nil
		before()
	}
	return i.gate.AmendDocument(ctx, k, scope, name, change)
}

// TestStoreAway: a store that is away is not the fault of the agent.
func TestStoreAway(t *testing.T) {
	w := newWorld(t)
	w.Documents = amender(func() error { return fault.New(fault.Unavailable, "no") })
	if code := w.report("default.web-1", "default.web-1", of(80, true)); code != http.StatusServiceUnavailable {
		t.Error(code)
	}
}

type amender func() error

func (a amender) AmendDocument(context.Context, *model.Kind, string, string, func(*model.Resource) (any, error)) (admit.Outcome, error) {
	return admit.Outcome{}, a()
}

package presence

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
		"one that is and one that isn't": {one, one, `{"inbounds":[{"port":80,"ready":true},{"port":83,"ready":true}]}`, 409, fresh},
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
	w := newWorld(t)
	var versions []uint64
	for _, ready := range []bool{true, true, false, false, true} {
		if code := w.report("default.web-1", "default.web-1", of(80, ready)); code != http.StatusNoContent {
			t.Fatal(code)
		}
		versions = append(versions, w.get(t, "web-1").Version)
	}
	if diff := cmp.Diff([]uint64{2, 2, 3, 3, 4}, versions); diff != "" {
		t.Error(diff)
	}
	w.Documents = putter(func() error { t.Error("it is written again"); return nil })
	if code := w.report("default.web-1", "default.web-1", of(80, true)); code != http.StatusNoContent {
		t.Error(code)
	}
}

// TestUserWritesBetween: a user who writes the dataplane and says nothing of its readiness changes
// nothing of it, and a report is judged anew over what a user has written meanwhile.
func TestUserWritesBetween(t *testing.T) {
	w := newWorld(t)
	w.report("default.web-1", "default.web-1", of(80, true))
	next := &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.7", Inbound: []mesh.Inbound{
		{Port: 80, Tags: mesh.Tags{mesh.TagService: "web", "version": "2"}, ServiceProbe: &mesh.ServiceProbe{TCP: &mesh.TCPProbe{}}},
	}}}
	w.put(t, "web-1", next)
	if in := w.get(t, "web-1").Spec.(*mesh.Dataplane).Inbound("", 80); !in.IsReady() || in.Health == nil || in.Tags["version"] != "2" {
		t.Errorf("%+v", in)
	}
	w.Documents = &interrupted{gate: w.gate, before: func() {
		again := next.WithInbounds(func(in *mesh.Inbound) { in.Name = "renamed" })
		w.put(t, "web-1", again)
	}}
	if code := w.report("default.web-1", "default.web-1", of(80, false)); code != http.StatusNoContent {
		t.Error(code)
	}
	if in := w.get(t, "web-1").Spec.(*mesh.Dataplane).Inbound("", 80); in.IsReady() || in.Name != "renamed" {
		t.Errorf("%+v", in)
	}
}

// interrupted has something written before the first write.
type interrupted struct {
	gate   *admit.Gate
	before func()
}

func (i *interrupted) PutDocumentIf(ctx context.Context, k *model.Kind, scope, name string, spec any, allowed admit.Allowed) (admit.Outcome, bool, error) {
	if before := i.before; before != nil {
		i.before = nil
		before()
	}
	return i.gate.PutDocumentIf(ctx, k, scope, name, spec, allowed)
}

// TestGivesUp: a dataplane that others write all the time, and a store that is away, are not the
// fault of the agent.
func TestGivesUp(t *testing.T) {
	w := newWorld(t)
	n := 0
	w.Documents = putter(func() error { n++; return errMoved })
	if code := w.report("default.web-1", "default.web-1", of(80, true)); code != http.StatusServiceUnavailable || n != maxAttempts {
		t.Error(code, n)
	}
	w.Documents = putter(func() error { return fault.New(fault.Unavailable, "no") })
	if code := w.report("default.web-1", "default.web-1", of(80, true)); code != http.StatusServiceUnavailable {
		t.Error(code)
	}
}

type putter func() error

func (p putter) PutDocumentIf(context.Context, *model.Kind, string, string, any, admit.Allowed) (admit.Outcome, bool, error) {
	return admit.Outcome{}, false, p()
}

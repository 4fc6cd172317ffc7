package meshapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/dryrun/dryruntest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes/nodestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/inspect"
	"github.com/meshgate/meshgate/inspect/explain"
	policies "github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(closing{m}) }

// closing closes what all tests share before the check for leaks.
type closing struct{ *testing.M }

func (c closing) Run() int {
	code := c.M.Run()
	if nodeStore != nil {
		_ = nodeStore.Close()
	}
	return code
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// ticket is a typical policy for this package: it has selectors, fields of its own, and
// rules.
type ticket struct {
	model.Labelled
	mesh.Connection
	Conf *ticketConf `json:"conf,omitempty"`
}

type ticketConf struct {
	Price   uint32         `json:"price,omitempty"`
	Note    string         `json:"note,omitempty"`
	Timeout *mesh.Duration `json:"timeout,omitempty"`
}

var tickets = model.Describe(ticket{}, model.Kind{
	Name: "ticket", Path: "tickets", Scoping: model.Mesh,
	Document: &model.Document{
		Type: "Ticket", Singular: "Ticket", Plural: "Tickets", Policy: true, Inbound: true,
		Validate: func(spec any) (out []fault.Violation) {
			if t := spec.(*ticket); len(t.Sources) == 0 {
				out = append(out, fault.Violation{Path: "sources", Message: "must have at least one element"})
			}
			if t := spec.(*ticket); t.Conf == nil {
				out = append(out, fault.Violation{Path: "conf", Message: "has to be defined"})
			}
			return out
		},
	},
})

// pass is a policy that chooses proxies by a reference.
type pass struct {
	model.Labelled
	Spec *struct {
		TargetRef mesh.BackendRef `json:"targetRef"`
	} `json:"spec,omitempty"`
}

var passes = model.Describe(pass{}, model.Kind{
	Name: "pass", Path: "passes", Scoping: model.Mesh,
	Document: &model.Document{Type: "Pass", Singular: "Pass", Plural: "Passes", Policy: true},
})

// surveys is a kind that this API only shows.
var surveys = model.Describe(ticket{}, model.Kind{
	Name: "census", Path: "censuses", Scoping: model.Global, ReadOnly: true,
	Document: &model.Document{Type: "Census", Singular: "Census", Plural: "Censuses", Policy: true, Outbound: true},
})

// testPolicies choose tickets for inbounds and for outbounds.
var testPolicies = []*policies.Policy{{
	Kind: tickets, Attachment: policies.AllByInbound | policies.ByOutbound,
	Explain: func(s *policies.Selection) any { return policies.First[ticket](s).Conf },
}}

// writer is a Writer that can fail.
type writer struct {
	Writer
	put, remove error
	// beforePut runs before each write.
	beforePut func()
}

func (w *writer) PutDocumentIf(ctx context.Context, k *model.Kind, scope, name string, spec any, allowed admit.Allowed) (admit.Outcome, bool, error) {
	if w.beforePut != nil {
		w.beforePut()
	}
	if w.put != nil {
		return admit.Outcome{}, false, w.put
	}
	return w.Writer.PutDocumentIf(ctx, k, scope, name, spec, allowed)
}

func (w *writer) DeleteDocumentIf(ctx context.Context, k *model.Kind, scope, name string, allowed admit.Allowed) (store.Commit, error) {
	if w.remove != nil {
		return store.Commit{}, w.remove
	}
	return w.Writer.DeleteDocumentIf(ctx, k, scope, name, allowed)
}

// insights holds what is known of dataplanes and of the proxies of zones, by name.
type insights map[string]any

func (i insights) Read(_ context.Context, _ *model.Kind, _, name string) (any, bool, error) {
	doc, ok := i[name]
	if err, broken := doc.(error); broken {
		return nil, false, err
	}
	return doc, ok, nil
}

// told is what is known. The census knows of the same dataplanes.
var told = insights{
	"web-1":  map[string]any{"subscriptions": []any{map[string]any{"id": "<1>"}}},
	"left":   &insight.DataplaneInsight{Subscriptions: []insight.Subscription{{ID: "s-1", ConnectTime: start, DisconnectTime: new(start.Add(time.Hour))}}},
	"broken": errors.New("the disk is gone"),
	"nan":    math.NaN(),
	"east": map[string]any{"subscriptions": []any{map[string]any{
		"id": "z-1", "globalInstanceId": "g-1", "connectTime": start, "status": map[string]any{"total": map[string]any{}},
		"version": map[string]any{"meshCp": map[string]any{"version": "1.2.3"}},
	}}},
}

type problems map[string][]string

func (p problems) Of(_, dataplane string) []string { return p[dataplane] }

// mint issues tokens that consist of the request.
type mint struct{ err error }

func (m *mint) Issue(_ context.Context, r identity.DataplaneTokenRequest) (string, error) {
	if m.err != nil {
		return "", m.err
	}
	raw, err := json.Marshal(r)
	return string(raw), err
}

func (m *mint) IssueUser(_ context.Context, r identity.UserTokenRequest) (string, error) {
	return m.any(r)
}

func (m *mint) IssueZone(_ context.Context, r identity.ZoneTokenRequest) (string, error) {
	return m.any(r)
}

func (m *mint) IssueZoneIngress(_ context.Context, r identity.ZoneIngressTokenRequest) (string, error) {
	return m.any(r)
}

func (m *mint) any(r any) (string, error) {
	raw, err := json.Marshal(r)
	return string(raw), errors.Join(err, m.err)
}

// api is an API on a store in memory.
type api struct {
	handler http.Handler
	store   store.Store
	tokens  *identity.Tokens
	writer  *writer
	mint    *mint
	rig     *dryruntest.Rig
	options Options
}

// identify takes the caller from a header that only tests use.
func identify(r *http.Request) (model.Actor, error) {
	switch name := r.Header.Get("X-User"); name {
	case "":
		return model.Administrator(), nil
	case "anonymous":
		return model.Anonymous(), nil
	case "forged":
		return model.Actor{}, fault.New(fault.Denied, "the token is forged")
	default: // name:group,group
		name, groups, _ := strings.Cut(name, ":")
		return model.User(name, slices.DeleteFunc(strings.Split(groups, ","), func(g string) bool { return g == "" })...), nil
	}
}

var (
	nodeTokens     *identity.Tokens
	nodeStore      store.Store
	nodeTokensOnce sync.Once
)

// keys makes the signing key of gateways once, because this takes a while.
func keys(t testing.TB) *identity.Tokens {
	nodeTokensOnce.Do(func() {
		nodeStore = memstore.New()
		var err error
		if nodeTokens, err = identity.OpenTokens(context.Background(), nodeStore, func() time.Time { return start }); err != nil {
			t.Error(err)
		}
	})
	return nodeTokens
}

// clock advances whenever the store reads it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) tick() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(1500 * time.Millisecond)
	return c.now
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func newAPI(t testing.TB, change ...func(*Options)) *api {
	t.Helper()
	c := &clock{now: start}
	// The store moves time only when it is written: the census reads whenever it likes.
	return newAPIOn(t, memstore.Open(memstore.Options{Now: c.tick, Past: c.read}), c, change...)
}

// testKinds returns the kinds of the API under test.
func testKinds() []*model.Kind { return append(mesh.Kinds(), tickets, passes, surveys) }

// newAPIOn is newAPI with another store, which it closes.
func newAPIOn(t testing.TB, s store.Store, c *clock, change ...func(*Options)) *api {
	t.Helper()
	t.Cleanup(func() { _ = s.Close() })
	kinds := testKinds()
	gate := admit.New(s, &admittest.Revoker{}, kinds, c.read).As(model.System("test"))
	counts := newCensus(t, s, kinds)
	views := view.New(s, []*model.Kind{tickets}, slog.New(slog.DiscardHandler))
	t.Cleanup(views.Close)
	a := &api{store: s, tokens: keys(t), writer: &writer{Writer: gate}, mint: &mint{}, rig: dryruntest.New(t, s)}
	a.options = Options{
		Revoke: func(ctx context.Context, of identity.TokenKind, mesh string, ids []string) (int, error) {
			return identity.RevokeTokens(ctx, gate, of, mesh, ids)
		},
		Kinds: kinds, Recorded: changes.Listed(kinds), Store: s, Writer: a.writer, Tokens: a.tokens, Version: "1.2.3",
		Insights: told,
		Census:   counts, Directory: counts,
		Problems:        problems{"web-2": {"two listeners on 10.0.0.2:80"}},
		Policies:        &inspect.Policies{Views: views, Policies: testPolicies, Latest: s.Revision, Turns: turns.New(inspect.Waiting)},
		Explain:         explanations(views, s),
		Dumps:           nodestest.Dumps{"m.away": fault.New(fault.Unavailable, "the proxy is not connected"), "m.broken": errors.New("10.0.0.9: refused")},
		DryRun:          a.rig,
		DataplaneTokens: a.mint, ControlPlaneTokens: a.mint,
		Settings: func() any {
			return map[string]any{"mode": "standalone", "apiServer": map[string]any{"readOnly": false}}
		},
		About:         About{ClusterID: "c-1", Hostname: "host", InstanceID: "host-ab12"},
		ProxyVersions: map[string]string{"1.2.3": "1.39.3", "~1.1.0": "~1.38.0"},
		Zone:          "east",
		Keys:          ring{identity.NewUses(c.read)},
		Identify:      identify,
		Nodes:         nodestest.New(),
		Revisions: func(w http.ResponseWriter, r *http.Request) {
			httpkit.WriteMessage(w, http.StatusOK, "revision "+r.PathValue("revision"))
		},
		Conditions: func(w http.ResponseWriter, _ *http.Request) { httpkit.WriteMessage(w, http.StatusOK, "ready") },
	}
	for _, f := range change {
		f(&a.options)
	}
	a.handler = Handler(a.options)
	return a
}

// taken is a census that runs once it is asked for the first time: it reads the store, and so the
// clock. It knows the proxy web-1, which is connected.
type taken struct {
	*census.Census
	begin func()
}

func (c *taken) Now(ctx context.Context) (*census.State, time.Time, error) {
	c.begin()
	return c.Census.Now(ctx)
}

func (c *taken) Find(ctx context.Context, s census.Search) (*census.Found, error) {
	c.begin()
	return c.Census.Find(ctx, s)
}

func newCensus(t testing.TB, s store.Store, kinds []*model.Kind) *taken {
	c := census.New(census.Options{
		Store: s, Kinds: kinds, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return start.Add(time.Hour) },
		Online: func(_ *model.Kind, name string) bool { return name == "east" },
		Insight: func(_, name string) *insight.DataplaneInsight {
			if _, known := told[name]; !known {
				return nil
			}
			if name != "web-1" {
				return &insight.DataplaneInsight{}
			}
			return &insight.DataplaneInsight{
				Subscriptions: []insight.Subscription{{ConnectTime: start, Version: &insight.Versions{
					MeshDP: insight.AgentVersion{Version: "1.2.3"}, Proxy: insight.ProxyVersion{Version: "1.39.3"},
				}}},
				MTLS: &insight.MTLS{IssuedBackend: "ca-1", SupportedBackends: []string{"ca-1"}},
			}
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	return &taken{c, sync.OnceFunc(func() {
		running.Go(func() { _ = c.Run(ctx) }) // it ends with the test
	})}
}

func request(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:5681"+path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

// put stores a document and fails the test if that is refused.
func (a *api) put(t testing.TB, path, body string) {
	t.Helper()
	rec := request(a.handler, http.MethodPut, path, body, "Content-Type", mediaJSON)
	if rec.Code != http.StatusCreated && rec.Code != http.StatusOK {
		t.Fatalf("PUT %s: %d %s", path, rec.Code, rec.Body)
	}
}

// explanations explains requests of proxies that are not connected.
func explanations(views *view.Views, s store.Store) *explain.Meshes {
	return &explain.Meshes{
		Policies: &inspect.Policies{Views: views, Policies: testPolicies, Latest: s.Revision, Turns: turns.New(inspect.Waiting)},
		Last:     func(string) *resource.Set { return nil },
		Planned:  func(context.Context, string) error { return nil },
	}
}

package gatewayapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// HeaderRevision carries the store revision of a write.
const HeaderRevision = "X-Mesh-Revision"

// Progress tells how far proxies are. Wait returns the document of GET /revisions/{rev} when
// nothing waits for the revision any more, or when ctx ends, which is not an error. A
// NotFound fault names the newest revision. sees says which meshes or control planes, one of the
// two, the caller may see: what belongs to others is counted and not named.
type Progress interface {
	Wait(ctx context.Context, revision uint64, sees func(mesh, controlPlane string) bool) (any, error)
}

// Collection is one kind in this API.
type Collection struct {
	Kind *model.Kind
	// Nested is the name of the collection below an owner; Kind.Path if it is empty.
	Nested string
	// Total adds the number of all resources to pages.
	Total bool
	// Filters are query parameters that select at most one resource, by the unique index of
	// the same name.
	Filters []string
	// Unlisted is what declarative tools write in their cloud mode without having read it: they make it
	// anew, under another id, in each run. See [Unlisted].
	Unlisted bool
	// PlainMissing answers a PATCH of a missing resource without the error document.
	PlainMissing bool
	// Composite explains values of indexes that stand for several fields.
	Composite map[string]func(value string) map[string]any
}

// Collections returns the collections of the gateway.
func Collections() []Collection { return CollectionsOf(gateway.Kinds()) }

// CollectionsOf returns the collections for those kinds that are entities.
func CollectionsOf(kinds []*model.Kind) (list []Collection) {
	for _, k := range kinds {
		if k.Schema != nil {
			c := peculiar[k]
			c.Kind = k
			list = append(list, c)
		}
	}
	return list
}

// peculiar holds special behaviour for some kinds, which clients of this API expect. A new
// kind needs no entry.
var peculiar = map[*model.Kind]Collection{
	gateway.Consumers:    {Filters: []string{gateway.IndexCustomID}},
	gateway.Plugins:      {PlainMissing: true, Composite: map[string]func(string) map[string]any{gateway.IndexTarget: gateway.TargetFields}},
	gateway.Applications: {Filters: []string{gateway.IndexClientID}, Unlisted: true},
	gateway.Tokens:       {Total: true},
	gateway.Keys:         {Nested: "key-auth"},
	gateway.Targets:      {Composite: map[string]func(string) map[string]any{gateway.IndexTarget: gateway.UpstreamTargetFields}},
}

// nested returns the path segment of the collection below an owner.
func (c Collection) nested() string { return cmp.Or(c.Nested, c.Kind.Path) }

// Options configure an API. Guard, Token, Identify, Rules, Revocations, Proxies, Nodes, Conditions, Dumps,
// Explain, DryRun, ReadOnly and Scope are optional.
type Options struct {
	Store       store.Store
	Gate        *admit.Gate
	Collections []Collection
	Progress    Progress
	Log         *slog.Logger
	Now         func() time.Time
	// Version is shown at /.
	Version string
	// Scope is the served control plane; [model.DefaultControlPlane] if it is empty.
	Scope string
	// Guard protects a loopback listener without authentication. It is nil if callers are
	// authenticated before.
	Guard *httpkit.BrowserGuard
	// Token, if set, is a bearer token of administrators. Without Identify, every request must
	// carry it.
	Token string
	// Identify returns the caller of a request. If it and Token are missing, everybody who
	// passes the guard is an administrator. [httpkit.RefuseMessage] answers its error.
	Identify func(*http.Request) (model.Actor, error)
	// Rules decide what callers may do.
	Rules *access.Rules
	// Revocations revokes tokens in bulk. Without it, these endpoints do not exist.
	Revocations Revocations
	// Proxies tells how gateways see targets. Without it, targets have no health.
	Proxies Proxies
	// Nodes knows all nodes. Without it, the endpoints about nodes do not exist.
	Nodes Nodes
	// Conditions serves GET /conditions, which does not exist without it.
	Conditions http.HandlerFunc
	// Dumps shows the configuration that nodes hold. Without it, the endpoint does not exist.
	Dumps Dumps
	// Explain explains imagined requests. Without it, the endpoint does not exist.
	Explain Explain
	// DryRun says what writes would do. Without it, dry runs are refused.
	DryRun DryRun
	// Entities leaves out what is not about entities: what the API is, how far proxies are, records
	// and conditions.
	Entities bool
	// ReadOnly, if set, says why nothing can be written. Writes are answered with it and 405.
	ReadOnly string
}

// API serves the administration API.
type API struct {
	Options
	byKind map[string]Collection
	// description returns the OpenAPI document that is served.
	description func() ([]byte, error)
}

// New returns the API.
func New(o Options) *API {
	if o.Scope == "" {
		o.Scope = model.DefaultControlPlane
	}
	if o.Guard != nil && slices.Contains(o.Guard.Origins, "*") {
		o.Log.Warn("every web page may call the administration API", "origins", o.Guard.Origins)
	}
	a := &API{Options: o, byKind: make(map[string]Collection, len(o.Collections))}
	for _, c := range o.Collections {
		a.byKind[c.Kind.Name] = c
	}
	a.description = sync.OnceValues(a.describe)
	return a
}

// refuse answers a caller who may not call an endpoint, or not in this way.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if fault.Is(err, fault.Invalid) {
		a.fail(w, r, badOption(err), call{})
		return
	}
	httpkit.RefuseMessage(w, r, err)
}

// Handler returns the handler of all endpoints.
func (a *API) Handler() http.Handler {
	router := httpkit.NewRuledRouter(unshadowed(a.Endpoints()), a.Rules, a.refuse)
	checked := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := httpkit.Query(r); err != nil {
			a.fail(w, r, err, call{})
			return
		}
		router.ServeHTTP(w, r)
	})
	identify := a.Identify
	switch {
	case identify != nil:
	case a.Token != "":
		identify = httpkit.Bearer(a.Token, TokenHolder)
	default:
		identify = httpkit.Everybody(model.Administrator())
	}
	h := httpkit.Identified(identify, httpkit.RefuseMessage, checked)
	if a.Guard != nil {
		h = a.Guard.Wrap(h)
	}
	return inWorkspace(h)
}

// TokenHolder is a caller with the administration token.
var TokenHolder = model.Actor{Kind: model.ActorToken, Name: "administration", Groups: []string{model.GroupAdministrator}}

// revision adds the revision of a write to the answer and to the log.
func revision(w http.ResponseWriter, r *http.Request, c store.Commit) {
	httpkit.EntryOf(r.Context()).Revision = c.Revision
	w.Header().Set(HeaderRevision, strconv.FormatUint(c.Revision, 10))
}

// reply writes a document, and logs a failure to encode it.
func reply(w http.ResponseWriter, r *http.Request, status int, document any) {
	if err := httpkit.WriteJSON(w, status, document); err != nil {
		httpkit.EntryOf(r.Context()).Cause = err
	}
}

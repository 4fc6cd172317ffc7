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

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// HeaderRevision carries the store revision of a write.
const HeaderRevision = "X-Mesh-Revision"

// Progress knows how far proxies are. Wait returns the document of GET
// /revisions/{rev} once nothing waits for the revision any more or ctx is over;
// a context that is over is no error. A NotFound fault says which revision is the
// newest.
type Progress interface {
	Wait(ctx context.Context, revision uint64) (any, error)
}

// Collection is one kind as this API offers it.
type Collection struct {
	Kind *model.Kind
	// Nested is what the collection is called below an owner; Kind.Path if empty.
	Nested string
	// Total adds the number of all resources to pages.
	Total bool
	// Filters are query parameters that pick at most one resource by the unique
	// index of the same name.
	Filters []string
	// PlainMissing answers a PATCH of nothing without the error document.
	PlainMissing bool
	// Composite explains values of indexes that are no single field.
	Composite map[string]func(value string) map[string]any
}

// Collections are the kinds of the gateway.
func Collections() []Collection { return CollectionsOf(gateway.Kinds()) }

// CollectionsOf are the kinds among some that are entities.
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

// peculiar is what this API does with some kinds and not with others, because its clients
// know them so. A new kind needs no entry.
var peculiar = map[*model.Kind]Collection{
	gateway.Consumers:    {Filters: []string{gateway.IndexCustomID}},
	gateway.Plugins:      {PlainMissing: true, Composite: map[string]func(string) map[string]any{gateway.IndexTarget: gateway.TargetFields}},
	gateway.Applications: {Filters: []string{gateway.IndexClientID}},
	gateway.Tokens:       {Total: true},
	gateway.Keys:         {Nested: "key-auth"},
	gateway.Targets:      {Composite: map[string]func(string) map[string]any{gateway.IndexTarget: gateway.UpstreamTargetFields}},
}

// nested is the segment of the collection below an owner.
func (c Collection) nested() string { return cmp.Or(c.Nested, c.Kind.Path) }

// Options are what an API is made of. Guard, Token, Revocations, Proxies, Nodes,
// Conditions, Dumps, ReadOnly and Scope may be left out.
type Options struct {
	Store       store.Store
	Gate        *admit.Gate
	Collections []Collection
	Progress    Progress
	Log         *slog.Logger
	Now         func() time.Time
	// Version is shown at /.
	Version string
	// Scope is the control plane served; [model.DefaultControlPlane] if empty.
	Scope string
	// Guard protects a loopback listener without authentication; nil where
	// callers are authenticated before they get here.
	Guard *httpkit.BrowserGuard
	// Token, if set, is the bearer token that every request must carry.
	Token string
	// Revocations takes tokens away in bulk; without it the endpoints that do
	// so do not exist.
	Revocations Revocations
	// Proxies tells how gateways see targets; without it the health of targets is
	// not checked.
	Proxies Proxies
	// Nodes knows every node; without it the endpoints about nodes do not exist.
	Nodes Nodes
	// Conditions serves GET /conditions; without it that does not exist.
	Conditions http.HandlerFunc
	// Dumps shows what nodes hold; without it the endpoint that does so does not exist.
	Dumps Dumps
	// ReadOnly, if set, says why nothing can be written; writes are answered 405
	// with it.
	ReadOnly string
}

// API serves the administration API.
type API struct {
	Options
	byKind map[string]Collection
	// description is the OpenAPI document as it is served.
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

// refuse answers those who may not call an endpoint, or not like that.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if fault.Is(err, fault.Invalid) {
		a.fail(w, r, badOption(err), call{})
		return
	}
	httpkit.RefuseMessage(w, r, err)
}

// Handler returns the handler of every endpoint.
func (a *API) Handler() http.Handler {
	router := httpkit.NewRouter(a.Endpoints(), a.refuse)
	checked := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := httpkit.Query(r); err != nil {
			a.fail(w, r, err, call{})
			return
		}
		router.ServeHTTP(w, r)
	})
	// Whoever passed the guard and showed the token, if there is one, administrates.
	identify := httpkit.Everybody(model.Administrator())
	if a.Token != "" {
		identify = httpkit.Bearer(a.Token, tokenHolder)
	}
	h := httpkit.Identified(identify, httpkit.RefuseMessage, checked)
	if a.Guard != nil {
		h = a.Guard.Wrap(h)
	}
	return h
}

// tokenHolder is whoever shows the administration token.
var tokenHolder = model.Actor{Kind: model.ActorToken, Name: "administration", Groups: []string{model.GroupAdministrator}}

// revision tells client and log where a write stands.
func revision(w http.ResponseWriter, r *http.Request, c store.Commit) {
	httpkit.EntryOf(r.Context()).Revision = c.Revision
	w.Header().Set(HeaderRevision, strconv.FormatUint(c.Revision, 10))
}

// reply writes a document; a failure to encode it is for the log.
func reply(w http.ResponseWriter, r *http.Request, status int, document any) {
	if err := httpkit.WriteJSON(w, status, document); err != nil {
		httpkit.EntryOf(r.Context()).Cause = err
	}
}

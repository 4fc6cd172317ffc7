package meshapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// HeaderRevision carries the store revision of a write; see GET /revisions.
const HeaderRevision = "X-Mesh-Revision"

// MaxBody bounds the body of a request, in bytes.
const MaxBody = 1 << 20

// Writer writes documents; [admit.Gate] is one.
type Writer interface {
	// CheckDocument returns an Invalid fault with every violation of a spec by
	// itself.
	CheckDocument(k *model.Kind, spec any) error
	// PutDocumentIf creates or replaces a document, unless that is not allowed, and
	// reports whether it was created. An Invalid fault is about other resources.
	// NotFound has [admit.Missing] as subject. A commit with changes beside an error
	// stands: only its publication failed.
	PutDocumentIf(ctx context.Context, k *model.Kind, scope, name string, spec any, allowed admit.Allowed) (admit.Outcome, bool, error)
	// DeleteDocumentIf deletes a document, unless that is not allowed.
	DeleteDocumentIf(ctx context.Context, k *model.Kind, scope, name string, allowed admit.Allowed) (store.Commit, error)
}

// Insights knows what proxies report.
type Insights interface {
	// Read returns the insight of a dataplane as a JSON document, and whether
	// there is one.
	Read(ctx context.Context, mesh, name string) (document any, ok bool, err error)
}

// Problems knows why proxies do not have the configuration they should have.
type Problems interface {
	// Of returns one sentence for each problem of a dataplane: its configuration
	// could not be made, or the proxy refused it.
	Of(mesh, dataplane string) []string
}

// Dumps shows the configuration that nodes hold; [inspect.Dumps] does.
type Dumps interface {
	// XDS calls show with the dump of a node, a JSON object with the key configs. An
	// Invalid fault is about from, which is that of the query or empty.
	XDS(ctx context.Context, node, from string, show func(dump []byte)) error
}

// DataplaneTokens issues the tokens that dataplanes prove themselves by. Faults:
// Invalid with violations of the request, NotFound with the signing key that is
// missing.
type DataplaneTokens interface {
	Issue(ctx context.Context, r identity.DataplaneTokenRequest) (string, error)
}

// Nodes knows every node; [nodes.Registry] does.
type Nodes interface {
	List(q nodes.Query) nodes.Page
	// Await returns when what is shown of nodes is not what a mark names, or ctx ends.
	Await(ctx context.Context, mark string)
	// Get and Remove are NotFound for a node that is not known; Remove is Conflict for
	// one that is connected.
	Get(name string) (nodes.Node, error)
	Remove(ctx context.Context, name string) error
	// RemoveFormer says it of former processes of a node that goes on with another one.
	RemoveFormer(name string) error
}

// About is what GET / says of this control plane.
type About struct {
	// ClusterID is the same for all instances of one control plane.
	ClusterID string
	// GUI is the path of the console; empty where there is none.
	GUI string
	// Hostname and InstanceID name this instance.
	Hostname, InstanceID string
}

// Options of the API. Endpoints whose part is nil are not offered.
type Options struct {
	// Kinds are the kinds that are offered, those without a Document excepted.
	Kinds []*model.Kind
	// Store and Writer are needed if there are Kinds.
	Store  store.Store
	Writer Writer

	Insights        Insights
	Problems        Problems
	Dumps           Dumps
	Policies        Policies
	DataplaneTokens DataplaneTokens
	// Tokens are those of gateways.
	Tokens *identity.Tokens
	// Revoke adds ids to the dataplane tokens of a mesh that no longer count, or to the
	// tokens of gateways if no mesh is named; [identity.RevokeTokens] does.
	Revoke func(ctx context.Context, mesh string, ids []string) (added int, err error)
	// Recorded are the kinds by which GET /changes can be filtered; without them it is
	// not offered.
	Recorded []*model.Kind
	// Nodes knows every node.
	Nodes Nodes
	// Keys are those of the whole control plane.
	Keys Keyring
	// Revisions serves GET /revisions/{revision}.
	Revisions http.HandlerFunc
	// Conditions serves GET /conditions.
	Conditions http.HandlerFunc

	About About
	// Version is that of this program.
	Version string
	// ProxyVersions maps versions of the dataplane, or constraints on them, to
	// the proxy that comes with them.
	ProxyVersions map[string]string
	// Zone is the name of the local zone; empty where there is none.
	Zone string
	// ReadOnly refuses every PUT and DELETE of documents; tokens are issued.
	ReadOnly bool

	// Guard protects a loopback listener without authentication.
	Guard httpkit.BrowserGuard
	// Identify says who calls. nil means that whoever passes the guard is an
	// administrator. Its error is a Denied fault.
	Identify func(*http.Request) (model.Actor, error)
}

// API serves the mesh API.
type API struct{ Options }

// Handler returns the handler of every endpoint. It panics on kinds that
// contradict each other, which is a mistake in the program.
func Handler(o Options) http.Handler {
	a := &API{o}
	if a.Identify == nil {
		a.Identify = httpkit.Everybody(model.Administrator())
	}
	return a.Guard.Wrap(a.authenticate(newRouter(a.Endpoints(), forbid)))
}

// Endpoints lists every endpoint.
func (a *API) Endpoints() []httpkit.Endpoint {
	list := a.information()
	for _, k := range a.Kinds {
		if k.Document != nil {
			list = append(list, collection{a, k}.endpoints()...)
		}
	}
	list = append(list, a.overviews()...)
	list = append(list, a.dumps()...)
	list = append(list, a.selections()...)
	list = append(list, a.nodeEndpoints()...)
	list = append(list, a.tokens()...)
	list = append(list, a.revocations()...)
	return append(list, a.keys()...)
}

// endpoint is one that reads and writes JSON, or writes produces.
func endpoint(method, pattern string, auth httpkit.Authorisation, summary, produces string, h http.HandlerFunc) httpkit.Endpoint {
	return httpkit.Endpoint{Method: method, Pattern: pattern, Auth: auth, Summary: summary, Handler: negotiate(produces, h)}
}

// announce tells client and log where a write stands.
func announce(w http.ResponseWriter, r *http.Request, c store.Commit) {
	httpkit.EntryOf(r.Context()).Revision = c.Revision
	w.Header().Set(HeaderRevision, strconv.FormatUint(c.Revision, 10))
}

package meshapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/census"
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

// Writer writes documents; [admit.Gate] implements it.
type Writer interface {
	// CheckDocument returns an Invalid fault with all violations of a spec, without looking
	// at other resources.
	CheckDocument(k *model.Kind, spec any) error
	// PutDocumentIf creates or replaces a document if that is allowed, and reports whether it
	// was created. An Invalid fault is about other resources. NotFound has [admit.Missing] as
	// subject. If it returns a commit with changes and an error, the commit stands, and only
	// its publication failed.
	PutDocumentIf(ctx context.Context, k *model.Kind, scope, name string, spec any, allowed admit.Allowed) (admit.Outcome, bool, error)
	// DeleteDocumentIf deletes a document if that is allowed.
	DeleteDocumentIf(ctx context.Context, k *model.Kind, scope, name string, allowed admit.Allowed) (store.Commit, error)
}

// Insights returns what proxies and zones have reported.
type Insights interface {
	// Read returns what is known about a resource as a JSON object, and whether anything is.
	Read(ctx context.Context, k *model.Kind, scope, name string) (document any, ok bool, err error)
}

// Directory knows what lists are filtered by, of kinds that [census.Lists] names; [census.Census]
// implements it.
type Directory interface {
	// Find searches resources as they are after everything that had happened when it was called.
	// The error is Unavailable if ctx ends before that is known. If ctx has ended already, nobody
	// waits, and the answer is what is known at once.
	Find(ctx context.Context, s census.Search) (*census.Found, error)
}

// Problems tells why proxies do not have the configuration that they should have.
type Problems interface {
	// Of returns one sentence for each problem of a dataplane: its configuration could not be
	// made, or the proxy refused it.
	Of(mesh, dataplane string) []string
}

// Dumps shows the configuration that nodes hold; [inspect.Dumps] implements it.
type Dumps interface {
	// XDS calls show with the dump of a node, a JSON object with the key configs. from is the
	// source in the query, or empty. An Invalid fault is about from.
	XDS(ctx context.Context, node, from string, show func(dump []byte)) error
	// Ask calls show with what the Envoy of a node has at a path of its administration
	// interface. The fault is Unavailable if it does not answer.
	Ask(ctx context.Context, node, path string, show func(page []byte)) error
	// Configuration calls show with a JSON object: the configuration that a node has
	// acknowledged or, with shadow, the one that it should have; with diff, also their
	// difference.
	Configuration(ctx context.Context, node string, shadow, diff bool, show func(doc []byte)) error
	// Compare calls show with a JSON object: for each resource of a node the versions that it
	// should have, was sent and has acknowledged; with diff, also their difference.
	Compare(ctx context.Context, node string, diff bool, show func(doc []byte)) error
}

// DataplaneTokens issues the tokens with which dataplanes authenticate. Its faults are
// Invalid with violations of the request, and NotFound with the missing signing key.
type DataplaneTokens interface {
	Issue(ctx context.Context, r identity.DataplaneTokenRequest) (string, error)
}

// ControlPlaneTokens issues the tokens of users and zones. Its faults are those of
// [DataplaneTokens].
type ControlPlaneTokens interface {
	IssueUser(ctx context.Context, r identity.UserTokenRequest) (string, error)
	IssueZone(ctx context.Context, r identity.ZoneTokenRequest) (string, error)
	IssueZoneIngress(ctx context.Context, r identity.ZoneIngressTokenRequest) (string, error)
}

// Nodes knows all nodes; [nodes.Registry] implements it.
type Nodes interface {
	List(q nodes.Query) nodes.Page
	// Await returns when the list of nodes no longer has the given mark, or when ctx ends.
	Await(ctx context.Context, mark string)
	// Get and Remove return NotFound for an unknown node; Remove returns Conflict for a
	// connected one. allowed, if set, may refuse the deletion of what is stored of it.
	Get(name string) (nodes.Node, error)
	Remove(ctx context.Context, name string, allowed func(*model.Kind) error) error
	// RemoveFormer removes the former processes of a node that is connected with a new one.
	RemoveFormer(name string) error
}

// About describes this control plane in the answer of GET /.
type About struct {
	// ClusterID is the same for all instances of one control plane.
	ClusterID string
	// Product is the name under which clients know this control plane; see [Product].
	Product string
	// Hostname and InstanceID identify this instance.
	Hostname, InstanceID string
}

// Options of the API. Endpoints whose option is nil are not offered.
type Options struct {
	// Kinds are the offered kinds; those without a Document are ignored.
	Kinds []*model.Kind
	// Store and Writer are needed if there are Kinds.
	Store  store.Store
	Writer Writer

	Insights Insights
	Census   Census
	// Directory answers lists of its kinds. Without it, those that are filtered read all of them,
	// and the others count all of them.
	Directory       Directory
	Problems        Problems
	Dumps           Dumps
	Policies        Policies
	Explain         Explain
	DryRun          DryRun
	DataplaneTokens DataplaneTokens
	// ControlPlaneTokens issues the tokens of users and zones.
	ControlPlaneTokens ControlPlaneTokens
	// NoIssuing refuses to issue tokens of dataplanes, users and zones.
	NoIssuing bool
	// Tokens issues the tokens of gateways.
	Tokens *identity.Tokens
	// Issued is told of each token before it is shown. about and request say what it is of, and what it is
	// good for. If it fails, the token is not shown. It may be nil.
	Issued func(ctx context.Context, about model.Key, scoping model.Scoping, request any) error
	// ControlPlaneNamed returns the scope of the control plane of a name or id, or NotFound. Without it,
	// there is the first one only.
	ControlPlaneNamed func(ctx context.Context, named string) (scope string, err error)
	// Revoke adds ids to the revoked tokens of a kind; [identity.RevokeTokens] does this.
	Revoke func(ctx context.Context, of identity.TokenKind, mesh string, ids []string) (added int, err error)
	// Recorded lists the kinds by which GET /changes can be filtered. Without it, GET
	// /changes is not offered.
	Recorded []*model.Kind
	// Nodes knows all nodes.
	Nodes Nodes
	// Keys manages the keys of the control plane.
	Keys Keyring
	// Revisions serves GET /revisions/{revision}.
	Revisions http.HandlerFunc
	// Conditions serves GET /conditions.
	Conditions http.HandlerFunc

	About About
	// Version is the version of this program.
	Version string
	// ProxyVersions maps versions of the dataplane, or constraints on them, to the matching
	// proxy.
	ProxyVersions map[string]string
	// Zone is the name of the local zone; empty if there is none.
	Zone string
	// Writes says which documents can be written here.
	Writes Writes
	// Settings returns the document of GET /config. Without it, GET /config is not offered.
	Settings func() any

	// Guard protects a loopback listener without authentication.
	Guard httpkit.BrowserGuard
	// Identify returns the caller of a request. If it is nil, everybody who passes the guard
	// is an administrator. Its error is a Denied fault.
	Identify func(*http.Request) (model.Actor, error)
	// Rules decide what callers may do.
	Rules *access.Rules
}

// API serves the mesh API.
type API struct{ Options }

// Handler returns the handler of all endpoints. It panics on kinds that contradict each
// other, which is a mistake in the program.
func Handler(o Options) http.Handler {
	a := &API{o}
	if a.Identify == nil {
		a.Identify = httpkit.Everybody(model.Administrator())
	}
	return a.Guard.Wrap(a.authenticate(newRouter(a.Endpoints(), a.Rules, forbid)))
}

// Endpoints lists every endpoint.
func (a *API) Endpoints() []httpkit.Endpoint {
	list := append(a.information(), a.gui()...)
	for _, k := range a.Kinds {
		if k.Document != nil {
			list = append(list, collection{a, k}.endpoints()...)
		}
	}
	list = append(list, a.overviews()...)
	list = append(list, a.insights()...)
	list = append(list, a.dumps()...)
	list = append(list, a.zoneDumps()...)
	list = append(list, a.selections()...)
	list = append(list, a.matches()...)
	list = append(list, a.strangers()...)
	list = append(list, a.explanations()...)
	list = append(list, a.nodeEndpoints()...)
	list = append(list, a.tokens()...)
	list = append(list, a.revocations()...)
	return placed(append(list, a.keys()...))
}

// endpoint returns an endpoint that reads JSON and writes the media type produces.
func endpoint(method, pattern string, auth httpkit.Authorisation, summary, produces string, h http.HandlerFunc) httpkit.Endpoint {
	return httpkit.Endpoint{Method: method, Pattern: pattern, Auth: auth, Summary: summary, Handler: negotiate(produces, h)}
}

// announce adds the revision of a write to the answer and to the log.
func announce(w http.ResponseWriter, r *http.Request, c store.Commit) {
	httpkit.EntryOf(r.Context()).Revision = c.Revision
	w.Header().Set(HeaderRevision, strconv.FormatUint(c.Revision, 10))
}

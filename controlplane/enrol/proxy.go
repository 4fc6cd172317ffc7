package enrol

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/yamldoc"
	"github.com/meshgate/meshgate/xds/bootstrap"
)

// maxAttempts bounds how often an enrolment is judged again because another client has
// written the Dataplane in the meantime.
const maxAttempts = 16

// ProxyTokens checks the tokens of proxies.
type ProxyTokens interface {
	// Authenticate checks that a token was issued for a node. until is when the token
	// expires.
	Authenticate(ctx context.Context, nodeID, token string) (until time.Time, err error)
	// CheckToken returns a Denied fault for an invalid token, whichever node it is for.
	CheckToken(ctx context.Context, token string) error
	// CheckProxy checks that a token permits a proxy with the tags of d. It returns a
	// Denied fault for an invalid token, and Forbidden if the token is for another proxy.
	// With a nil d the tags are not checked.
	CheckProxy(ctx context.Context, token, mesh, name string, d *mesh.Dataplane) error
	// Exchange returns a valid token signed with the newest key.
	Exchange(ctx context.Context, token string) (string, error)
}

// Documents writes the documents of meshes. [admit.Gate] implements it.
type Documents interface {
	// CompleteDocument returns a spec as PutDocumentIf stores it.
	CompleteDocument(k *model.Kind, spec any) any
	PutDocumentIf(ctx context.Context, k *model.Kind, scope, name string, spec any, allowed admit.Allowed) (admit.Outcome, bool, error)
	DeleteDocumentIf(ctx context.Context, k *model.Kind, scope, name string, allowed admit.Allowed) (store.Commit, error)
	AmendDocument(ctx context.Context, k *model.Kind, scope, name string, change func(stored *model.Resource) (any, error)) (admit.Outcome, error)
}

// Mesh is what the enrolment of mesh proxies needs.
type Mesh struct {
	Tokens    ProxyTokens
	Documents Documents
	// CA returns the PEM bundle by which proxies verify the data-plane server.
	CA func() []byte
	// Names returns the names and addresses of its certificate.
	Names func() []string
	// Confirmed returns once the proxies that a revision concerns have confirmed it, or
	// with the error of ctx. It is nil if this cannot be found out.
	Confirmed func(ctx context.Context, revision uint64) error
	// Zone checks the tokens of proxies of zones. Without it there are none.
	Zone ZoneTokens
	// Most is the number of Dataplanes in a mesh up to which proxies may register more. 0
	// means 15,000, which is the number of proxies of a mesh that can be connected.
	Most int
}

const mostDataplanes = 15_000

// directAdminPort is the admin port of an Envoy without an agent, unless its Dataplane says
// otherwise.
const directAdminPort = 9901

// featureFilter is the feature of an Envoy without an agent that can load the filter's
// library, because ENVOY_DYNAMIC_MODULES_SEARCH_PATH names its directory.
const featureFilter = "filter"

var proxyStatuses = map[fault.Code]int{
	fault.Denied: http.StatusUnauthorized, fault.Forbidden: http.StatusForbidden, fault.NotFound: http.StatusNotFound,
	fault.Invalid: http.StatusUnprocessableEntity, fault.Conflict: http.StatusConflict,
	fault.Unavailable: http.StatusServiceUnavailable, fault.Unstored: http.StatusInsufficientStorage,
}

type violation struct {
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

type refusal struct {
	Message    string      `json:"message"`
	Violations []violation `json:"violations,omitempty"`
}

// serveProxy answers a proxy of a mesh that has sent o. bad is the reason if the body is
// not valid.
func (s *Server) serveProxy(w http.ResponseWriter, r *http.Request, o *model.Object, bad error) {
	var answer *Answer
	how, in, unknown, err := proxyRequest(r, o, bad)
	if err == nil {
		err = uncertified(r)
	}
	if err == nil {
		if answer, err = s.proxy(r, in); err != nil {
			s.refused(in.node(), err)
		}
	}
	if answer != nil && how == httpkit.Warn {
		answer.Warnings = httpkit.Warnings(w.Header(), unknown)
	}
	switch {
	case err != nil:
		failProxy(w, r, err)
	case answer == nil:
		w.WriteHeader(http.StatusNoContent)
	case acceptsJSON(r):
		_ = httpkit.WriteJSON(w, http.StatusOK, answer)
	default:
		w.Header().Set("Content-Type", "text/x-yaml")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(answer.Bootstrap)
	}
}

func acceptsJSON(r *http.Request) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		if t, _, err := mime.ParseMediaType(part); err == nil && t == "application/json" {
			return true
		}
	}
	return false
}

// failProxy answers a proxy of a mesh with an error.
func failProxy(w http.ResponseWriter, r *http.Request, err error) {
	entry := httpkit.EntryOf(r.Context())
	entry.Code, entry.Cause = string(fault.CodeOf(err)), err
	code, doc := http.StatusInternalServerError, refusal{Message: httpkit.TextInternal}
	if e, ok := errors.AsType[*fault.Error](err); ok && proxyStatuses[e.Code] != 0 {
		code, doc.Message = proxyStatuses[e.Code], e.Detail
		for _, v := range e.Violations {
			doc.Violations = append(doc.Violations, violation{v.Path, v.Message})
		}
	}
	httpkit.Later(w, err)
	_ = httpkit.WriteJSON(w, code, doc) // a node that is gone asks again
}

// proxyRequest reads the request of a proxy, as strictly as the request asks for. bad is
// the reason if the body could not be parsed.
func proxyRequest(r *http.Request, o *model.Object, bad error) (how httpkit.Strictness, in *Proxy, unknown []fault.Violation, err error) {
	how, ok := httpkit.ParseStrictness(r.URL.Query().Get(httpkit.ArgFieldValidation))
	if !ok {
		return how, nil, nil, fault.Violated([]fault.Violation{{Path: httpkit.ArgFieldValidation, Message: httpkit.TextFieldValidation}})
	}
	if bad != nil {
		return how, nil, nil, notValid(bad)
	}
	in, unknown, err = readProxy(o, how)
	return how, in, unknown, err
}

// proxy handles one request of a mesh proxy. A nil answer means that the proxy leaves.
func (s *Server) proxy(r *http.Request, in *Proxy) (*Answer, error) {
	if in.Token = cmp.Or(in.Token, bearer(r)); in.Token == "" {
		return nil, fault.New(fault.Denied, "a dataplane token is required")
	}
	ctx := model.WithActor(r.Context(), model.Node(in.node()))
	if in.ofZone() {
		return s.zoneProxy(ctx, r, in)
	}
	// The token is checked before anything is read or answered.
	if err := s.Mesh.Tokens.CheckProxy(ctx, in.Token, in.Mesh, in.Name, nil); err != nil {
		return nil, err
	}
	if r.Method == http.MethodDelete {
		_, err := s.settled(ctx, in, s.leave)
		return nil, err
	}
	if in.Leaving {
		return nil, s.serveLeaving(ctx, in)
	}
	config, err := s.bootstrap(r, in)
	if err != nil {
		return nil, err
	}
	d, err := s.settled(ctx, in, s.join)
	if err != nil {
		return nil, err
	}
	config.Cluster, config.Metadata = serviceOf(d), metadata(in, config)
	if in.Relay == nil {
		adminPort(config, adminOf(d))
	}
	text, err := bootstrap.Render(*config)
	if err != nil {
		return nil, fault.New(fault.Invalid, "no bootstrap can be made: %s", err)
	}
	return s.answer(config.NodeID, text), nil
}

// settled judges the stored Dataplane of a proxy and acts on it. If another client writes
// the Dataplane in the meantime, that write wins and is judged instead.
func (s *Server) settled(ctx context.Context, in *Proxy, act func(context.Context, *Proxy, *model.Resource) (*mesh.Dataplane, error)) (*mesh.Dataplane, error) {
	for range maxAttempts {
		old, err := s.dataplane(ctx, in)
		if err != nil {
			return nil, err
		}
		if old != nil {
			if err := s.Mesh.Tokens.CheckProxy(ctx, in.Token, in.Mesh, in.Name, old.Spec.(*mesh.Dataplane)); err != nil {
				return nil, err
			}
		}
		if d, err := act(ctx, in, old); !errors.Is(err, errMoved) {
			return d, err
		}
	}
	return nil, fault.New(fault.Unavailable, "dataplane %q of mesh %q is being written by others", in.Name, in.Mesh)
}

// errMoved rolls back a transaction that found another Dataplane than the one that was
// judged.
var errMoved = errors.New("the dataplane was written meanwhile")

// as allows a write only over the resource that was judged. A revision belongs to one
// commit, so a resource that was deleted and created again counts as another one.
func as(judged *model.Resource) admit.Allowed {
	return func(_ store.Reader, stored *model.Resource) error {
		if (judged == nil) != (stored == nil) || judged != nil && (judged.Revision != stored.Revision || judged.Version != stored.Version) {
			return errMoved
		}
		return nil
	}
}

// room allows a write only over the resource that was judged, and a new Dataplane only
// while its mesh has room. Without this limit, a token without a name could register any
// number of invented Dataplanes. They are counted by mesh and not by token, because the
// holder of one such token can remove the Dataplanes of all others in the mesh anyway.
func (s *Server) room(meshName string, judged *model.Resource) admit.Allowed {
	same, most := as(judged), cmp.Or(s.Mesh.Most, mostDataplanes)
	return func(r store.Reader, stored *model.Resource) error {
		if err := same(r, stored); err != nil || stored != nil {
			return err
		}
		n, err := r.Count(mesh.Dataplanes, store.Query{Scope: meshName})
		if err == nil && n >= most {
			err = fault.New(fault.Unavailable, "mesh %q has %d dataplanes: proxies register no more", meshName, n)
		}
		return err
	}
}

// owner returns which kind of proxy has registered a stored Dataplane, or proxy of a zone.
func owner(stored *model.Resource) string { return mesh.OwnerOf(model.LabelsOf(stored.Spec)) }

// join returns the Dataplane of a proxy, and registers it if the proxy has sent one.
func (s *Server) join(ctx context.Context, in *Proxy, old *model.Resource) (*mesh.Dataplane, error) {
	switch {
	case in.Resource == "" && old == nil:
		return nil, fault.New(fault.NotFound, "dataplane %q of mesh %q not found: create it first, or start the proxy with its dataplane file", in.Name, in.Mesh)
	case in.Resource == "":
		return old.Spec.(*mesh.Dataplane), nil
	case old != nil && owner(old) == "":
		// The token alone must not replace what an operator has written.
		return nil, fault.New(fault.Conflict, "dataplane %q of mesh %q is not owned by its proxy: start the proxy without a dataplane file, or delete it first", in.Name, in.Mesh)
	}
	return s.register(ctx, in, old)
}

// dataplane returns the stored Dataplane of a proxy, nil if there is none.
func (s *Server) dataplane(ctx context.Context, in *Proxy) (stored *model.Resource, err error) {
	err = s.Store.View(ctx, func(r store.Reader) error {
		if _, err := r.Get(mesh.Meshes, "", in.Mesh); err != nil {
			if fault.Is(err, fault.NotFound) {
				return fault.New(fault.NotFound, "mesh %q not found: create it first", in.Mesh)
			}
			return err
		}
		res, err := r.Get(mesh.Dataplanes, in.Mesh, in.Name)
		switch {
		case fault.Is(err, fault.NotFound):
			return nil
		case err == nil:
			stored = res
		}
		return err
	})
	return stored, err
}

// register stores the Dataplane that the proxy has sent in place of old.
func (s *Server) register(ctx context.Context, in *Proxy, old *model.Resource) (*mesh.Dataplane, error) {
	raw, err := yamldoc.JSON(ctx, []byte(in.Resource), model.MaxDocument)
	if err != nil {
		return nil, err
	}
	read, err := model.ReadDocument(mesh.Dataplanes, raw)
	if err != nil {
		return nil, err
	}
	vs, head := read.Unknown, read.Meta
	for _, f := range []struct{ path, got, want string }{
		{"type", head.Type, mesh.Dataplanes.Document.Type}, {"mesh", head.Mesh, in.Mesh}, {"name", head.Name, in.Name},
	} {
		if f.got != f.want {
			vs = append(vs, fault.Violation{Path: f.path, Message: "must be " + strconv.Quote(f.want)})
		}
	}
	if err := fault.Violated(vs); err != nil {
		return nil, err
	}
	d := read.Spec.(*mesh.Dataplane)
	d.SetLabels(in.labels(d.Labels))
	// A token may demand tags that the control plane adds.
	d = s.Mesh.Documents.CompleteDocument(mesh.Dataplanes, d).(*mesh.Dataplane)
	if err := s.Mesh.Tokens.CheckProxy(ctx, in.Token, in.Mesh, in.Name, d); err != nil {
		return nil, err
	}
	_, _, err = s.Mesh.Documents.PutDocumentIf(ctx, mesh.Dataplanes, in.Mesh, in.Name, d, s.room(in.Mesh, old))
	return d, err
}

// labels adds those that say who has registered a resource.
func (p *Proxy) labels(given map[string]string) map[string]string {
	labels := maps.Clone(given)
	if labels == nil {
		labels = map[string]string{}
	}
	if labels[mesh.LabelOwner] = mesh.OwnerProxy; p.Relay != nil {
		labels[mesh.LabelOwner] = mesh.OwnerAgent
	}
	if delete(labels, mesh.LabelInstance); p.Instance != "" {
		labels[mesh.LabelInstance] = p.Instance
	}
	if delete(labels, mesh.LabelStarting); p.Starting && p.ofZone() {
		labels[mesh.LabelStarting] = "true"
	}
	return labels
}

// leave deletes the Dataplane of a proxy that owns it. It does nothing for an agent whose
// place another agent has taken.
func (s *Server) leave(ctx context.Context, in *Proxy, old *model.Resource) (*mesh.Dataplane, error) {
	if old == nil {
		return nil, nil
	}
	if owner(old) == "" {
		return nil, fault.New(fault.Conflict, "dataplane %q of mesh %q is not owned by its proxy", in.Name, in.Mesh)
	}
	if of := old.Spec.(*mesh.Dataplane).Labels[mesh.LabelInstance]; of != in.Instance {
		if in.Instance == "" {
			return nil, fault.New(fault.Conflict, "dataplane %q of mesh %q is owned by an agent: stop the agent", in.Name, in.Mesh)
		}
		return nil, nil
	}
	_, err := s.Mesh.Documents.DeleteDocumentIf(ctx, mesh.Dataplanes, in.Mesh, in.Name, as(old))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return nil, err
}

// bootstrap returns the identity of the proxy and how it reaches its configuration.
func (s *Server) bootstrap(r *http.Request, in *Proxy) (*bootstrap.Config, error) {
	c := &bootstrap.Config{NodeID: in.node()}
	if in.Relay != nil {
		c.Relay, c.AdminSocket, c.AdminPort = in.Relay.Socket, in.Relay.AdminSocket, in.Relay.AdminPort
		return c, nil
	}
	host, text, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, text = strings.Trim(r.Host, "[]"), "443"
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || !slices.ContainsFunc(s.Mesh.Names(), func(n string) bool { return strings.EqualFold(n, host) }) {
		return nil, fault.Violated([]fault.Violation{{Path: "host", Message: "the control plane's certificate is not for " + strconv.Quote(host)}})
	}
	c.Direct = &bootstrap.Direct{Host: host, Port: uint32(port), CA: s.Mesh.CA(), Token: in.Token}
	c.AdminPort = directAdminPort
	return c, nil
}

func adminOf(d *mesh.Dataplane) *mesh.Admin {
	if d.Networking == nil {
		return nil
	}
	return d.Networking.Admin
}

func adminPort(c *bootstrap.Config, admin *mesh.Admin) {
	if admin != nil && admin.Port != 0 {
		c.AdminPort = admin.Port
	}
	c.Metadata["dataplane.admin.port"] = strconv.FormatUint(uint64(c.AdminPort), 10)
}

// metadata returns what Envoy tells the control plane about the node.
func metadata(in *Proxy, c *bootstrap.Config) map[string]any {
	m := map[string]any{"dataplane.proxyType": typeDataplane}
	if in.ofZone() {
		m["dataplane.proxyType"] = in.ProxyType
	}
	if c.AdminPort != 0 {
		m["dataplane.admin.port"] = strconv.FormatUint(uint64(c.AdminPort), 10)
	}
	// An Envoy without an agent has to say whether it can load the filter.
	if in.Relay == nil && !slices.Contains(in.Features, featureFilter) {
		m[bootstrap.MetadataFilter] = bootstrap.FilterNone
	}
	if in.Version != nil {
		m["version"] = in.Version
	}
	if in.WorkDir != "" {
		m["workdir"] = in.WorkDir
	}
	if len(in.Features) > 0 {
		features := make([]any, len(in.Features))
		for i, f := range in.Features {
			features[i] = f
		}
		m["features"] = features
	}
	if len(in.Dynamic) > 0 {
		dynamic := map[string]any{}
		for k, v := range in.Dynamic {
			dynamic[k] = v
		}
		m["dynamicMetadata"] = dynamic
	}
	return m
}

// serviceOf returns the name of a node's cluster: the service of its first inbound or of
// its gateway.
func serviceOf(d *mesh.Dataplane) string {
	for _, tags := range d.TagSets() {
		if s := tags.Service(); s != "" {
			return s
		}
	}
	return ""
}

func sortViolations(vs []fault.Violation) {
	slices.SortFunc(vs, func(a, b fault.Violation) int { return strings.Compare(a.Path, b.Path) })
}

// Package enrol lets nodes join. With its token a node tells the control plane what it is.
// It is told how to start and what its filter needs beyond xDS.
//
// There are two forms. A gateway instance says what it listens on. A proxy of a mesh names
// its Dataplane, or registers it; then it owns the Dataplane and removes it when it leaves.
package enrol

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/filter/contract"
)

// Path of the endpoint on the data-plane server.
const Path = "/bootstrap"

// RunningHeader is "true" if a gateway's Envoy runs already. It was started while the
// control plane was away, so a node that is connected with its name is the gateway itself.
const RunningHeader = "Meshgate-Running"

// NamedHeader is what the user of a gateway calls its control plane: its name or its id.
const NamedHeader = "Meshgate-Control-Plane"

// maxBody bounds a request and an answer in bytes. A Dataplane takes some hundred bytes for
// each of its outbounds.
const maxBody = 1 << 20

// maxAnonymous bounds the body of a request without a valid token in its header. Such a
// body must be read to some extent: it may contain the token, and it names the node to
// report as refused.
const maxAnonymous = 64 << 10

// maxParses bounds how many bodies are parsed at once, because a parsed body takes many
// times its size and every client that reaches the port can send some. Reading a body,
// which takes as long as the client likes, does not count. maxWaiting bounds the requests
// that wait to be parsed.
const (
	maxParses  = 4
	maxWaiting = 1024
)

// parses limits the concurrent parsing in this process.
var parses = turns.Sized(maxParses, maxWaiting)

// Answer is the answer to an enrolment. It contains no secret. Filters are told on their
// links where the second level of the token cache is, and only once they need it.
type Answer struct {
	// Node is the node id that the token stands for.
	Node string `json:"node"`
	// Bootstrap is the bootstrap of a mesh proxy's Envoy, as YAML.
	Bootstrap []byte `json:"bootstrap,omitempty"`
	// Warnings name unknown members of the request, if it asked for warnings.
	Warnings []string `json:"warnings,omitempty"`
	// Unknown says that the control plane counts no filter of the node: there was none, or
	// it was forgotten. What a filter has left in the run directory must then not be
	// believed.
	Unknown bool `json:"unknown,omitempty"`
	// Trusting says which ports of the control plane's machine must not be lent to strangers. It
	// is nil if there are none.
	Trusting *Trusting `json:"trusting,omitempty"`
}

// Writer runs a transaction. [admit.Gate] implements it.
type Writer interface {
	Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error)
}

// Server answers enrolments.
type Server struct {
	Store store.Store
	// Writer writes what gateways report about themselves. [admit.Gate] implements it.
	Writer Writer
	Tokens *identity.Tokens
	// Enrolled, if set, is called with the node id of each gateway that has enrolled.
	Enrolled func(ctx context.Context, node string)
	// Refused, if set, is called for each enrolment that is refused because of its token or
	// of the node it names, with the reason. proved says that the token was issued to the
	// node, although it is not valid.
	Refused func(node, reason string, proved bool)
	// Connected, if set, reports whether a node is connected.
	Connected func(node string) bool
	// Remembers, if set, reports whether the control plane counts a filter of a node.
	Remembers func(node string) bool
	// Plane, if set, returns the scope of the control plane of a name or id, or NotFound.
	Plane func(ctx context.Context, named string) (scope string, err error)
	// Mesh is what proxies of meshes need. It is nil if there are none.
	Mesh *Mesh
	// Trusting are the ports at which the control plane takes whoever is on its machine for an
	// administrator.
	Trusting []uint16
}

// ServeHTTP handles POST /bootstrap, and DELETE for proxies of meshes.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost && (r.Method != http.MethodDelete || s.Mesh == nil) {
		s.fail(w, r, fault.New(fault.Unsupported, "only POST is supported"))
		return
	}
	body, err := s.body(w, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	o, err := parse(r.Context(), body)
	if err != nil && !fault.Is(err, fault.Invalid) {
		s.fail(w, r, err)
		return
	}
	if s.Mesh != nil && (r.Method == http.MethodDelete || err == nil && isProxy(o)) {
		s.serveProxy(w, r, o, err)
		return
	}
	answer, err := s.enrol(r, o, err)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	_ = httpkit.WriteJSON(w, http.StatusOK, answer) // a node that is gone asks again
}

// body reads a request, up to the limit for its sender.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	shown, limit := bearer(r), int64(maxAnonymous)
	var bad error
	if shown != "" {
		switch bad = s.vouched(r.Context(), shown); {
		case bad == nil:
			limit = maxBody
		case !fault.Is(bad, fault.Denied):
			return nil, bad // the token cannot be checked now
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return nil, unread(err, bad, limit == maxBody)
	}
	return body, nil
}

// unread is the error of a body that was not read to its end. bad is what is wrong with the
// token of its sender; known says that nothing is. Whatever is sent by somebody unknown is no
// failure of the control plane.
func unread(err, bad error, known bool) error {
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case bad != nil:
		return denied(bad)
	case large:
		return fault.New(fault.TooLarge, "the enrolment is too large")
	case known && errors.Is(err, os.ErrDeadlineExceeded): // an agent that is refused gives up
		return fault.Wrap(fault.Unavailable, err, "the enrolment did not arrive in time; try again")
	}
	return fault.Wrap(fault.Invalid, err, "the enrolment broke off")
}

// vouched checks the token of the header, whichever node it is for.
func (s *Server) vouched(ctx context.Context, token string) error {
	if s.Mesh == nil || identity.ClaimsGateway(token) {
		_, err := s.Tokens.Check(ctx, token)
		return err
	}
	if s.Mesh.Zone != nil && identity.ClaimsZone(token) {
		return s.Mesh.Zone.CheckToken(ctx, token)
	}
	return s.Mesh.Tokens.CheckToken(ctx, token)
}

// parse parses a body once fewer than maxParses others are being parsed.
func parse(ctx context.Context, body []byte) (*model.Object, error) {
	if err := parses.Enter(ctx); err != nil {
		return nil, err
	}
	defer parses.Leave()
	return model.ParseObject(body)
}

// fail answers a gateway with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	err = httpkit.Unawaited(r, err)
	entry := httpkit.EntryOf(r.Context())
	entry.Code, entry.Cause = string(fault.CodeOf(err)), err
	code, doc := http.StatusInternalServerError, map[string]string{"message": httpkit.TextInternal}
	if e, ok := errors.AsType[*fault.Error](err); ok && statuses[e.Code] != 0 {
		code, doc = statuses[e.Code], map[string]string{"message": e.Shown()} // its cause is only for the log
	}
	httpkit.Later(w, err)
	_ = httpkit.WriteJSON(w, code, doc) // a node that is gone asks again
}

// statuses are the codes that a node can react to. Any other code is an unexpected error.
var statuses = map[fault.Code]int{
	fault.Denied: http.StatusUnauthorized, fault.Invalid: http.StatusUnprocessableEntity,
	fault.Unsupported: http.StatusMethodNotAllowed, fault.Unavailable: http.StatusServiceUnavailable,
	fault.TooLarge: http.StatusRequestEntityTooLarge, fault.Unstored: http.StatusInsufficientStorage,
}

// enrol enrols a gateway that has sent o. bad is the reason if the body is not valid.
func (s *Server) enrol(r *http.Request, o *model.Object, bad error) (*Answer, error) {
	claims, err := s.Tokens.Check(r.Context(), bearer(r))
	if err == nil {
		err = claims.Shows(shownBy(r))
	}
	if err != nil {
		s.refused(r.Header.Get(contract.NodeHeader), err)
		return nil, denied(err)
	}
	var in gateway.Instance
	if bad != nil {
		return nil, notValid(bad)
	}
	unknown, err := o.Read(&in)
	if err != nil {
		return nil, notValid(err)
	}
	if err := fault.Violated(append(unknown, check(&in)...)); err != nil {
		return nil, err
	}
	if err := s.joins(r, claims); err != nil {
		return nil, err
	}
	ctx := model.WithActor(r.Context(), model.Node(claims.NodeID()))
	other := s.Connected != nil && r.Header.Get(RunningHeader) != "true" && s.Connected(claims.NodeID())
	if err := s.remember(ctx, claims, &in, other); err != nil {
		return nil, err
	}
	if s.Enrolled != nil {
		s.Enrolled(context.WithoutCancel(ctx), claims.NodeID())
	}
	return s.answer(claims.NodeID(), nil), nil
}

// joins checks that a gateway comes to the control plane that it means, and that there is one. It may
// have been told its name, or its id; the token has the scope.
func (s *Server) joins(r *http.Request, claims *identity.Claims) error {
	if s.Plane == nil {
		return nil
	}
	if _, err := s.Plane(r.Context(), claims.ControlPlane); err != nil {
		return noPlane(err)
	}
	named := r.Header.Get(NamedHeader)
	if named == "" {
		return nil
	}
	switch scope, err := s.Plane(r.Context(), named); {
	case err != nil:
		return noPlane(err)
	case scope != claims.ControlPlane:
		return fault.New(fault.Invalid, "the %s is for the control plane %q, not for %q (--control-plane)", what(claims), claims.ControlPlane, named)
	}
	return nil
}

// noPlane is a refusal that no further attempt changes, if a control plane does not exist.
func noPlane(err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Code == fault.NotFound {
		return fault.New(fault.Invalid, "%s", e.Detail)
	}
	return err
}

func (s *Server) answer(node string, bootstrap []byte) *Answer {
	return &Answer{Node: node, Bootstrap: bootstrap, Unknown: s.Remembers != nil && !s.Remembers(node), Trusting: Trusts(s.Trusting)}
}

func notValid(err error) error {
	return fault.New(fault.Invalid, "the enrolment is not valid: %s", err)
}

// refused reports which node was refused, and why.
func (s *Server) refused(node string, err error) {
	if s.Refused != nil && (fault.Is(err, fault.Denied) || fault.Is(err, fault.Forbidden)) {
		s.Refused(node, err.Error(), identity.Proves(err, node))
	}
}

// denied tells a node what is wrong with its token, without the cause. Failures of the
// control plane itself are passed on unchanged, because a node takes a refusal as final.
func denied(err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Code == fault.Denied {
		return fault.New(fault.Denied, "%s", e.Detail)
	}
	return err
}

func check(in *gateway.Instance) (vs []fault.Violation) {
	if net.ParseIP(in.Listen) == nil {
		vs = append(vs, fault.Violation{Path: "listen", Message: "must be an IP address"})
	}
	if !isPort(in.HTTPPort) {
		vs = append(vs, fault.Violation{Path: "http_port", Message: "must be a port"})
	}
	if !isPort(in.HTTPSPort) {
		vs = append(vs, fault.Violation{Path: "https_port", Message: "must be a port"})
	}
	if p := in.RootsFile; p != "" && (!path.IsAbs(p) || len(p) > maxPath || strings.ContainsFunc(p, unicode.IsControl)) {
		vs = append(vs, fault.Violation{Path: "roots_file", Message: "must be an absolute path"})
	}
	if !in.Filter.Known() {
		vs = append(vs, fault.Violation{Path: "filter", Message: "must be a filter.mode that this control plane knows: let it be no older than its gateways"})
	}
	host, text, err := net.SplitHostPort(in.ControlPlane)
	port, portErr := strconv.Atoi(text)
	if err != nil || portErr != nil || host == "" || !isPort(port) {
		vs = append(vs, fault.Violation{Path: "control_plane", Message: "must be host:port"})
	}
	return vs
}

// maxPath is the longest path on Linux.
const maxPath = 4096

func isPort(n int) bool { return n >= 1 && n <= 65535 }

// remember stores what the gateway has said, unless it is known already. While another
// gateway is connected with the same name, the addresses that it listens on are not
// changed: it would silently close its ports and serve no requests. Nor is its
// filter's mode: it would refuse what is configured for another one.
func (s *Server) remember(ctx context.Context, c *identity.Claims, in *gateway.Instance, other bool) error {
	_, err := s.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
		res := &model.Resource{Kind: gateway.Instances, Scope: c.ControlPlane, Name: c.Name, Spec: in}
		old, err := tx.Get(gateway.Instances, c.ControlPlane, c.Name)
		switch {
		case fault.Is(err, fault.NotFound):
			_, err = tx.Create(res)
		case err == nil && other && !old.Spec.(*gateway.Instance).SameSockets(in):
			return taken(c.NodeID(), old.Spec.(*gateway.Instance))
		case err == nil && other && !old.Spec.(*gateway.Instance).SameFilter(in):
			return fault.New(fault.Invalid, "%s is connected with filter.mode %s: stop it first, or give another gateway a name (--name) and a token of its own", c.NodeID(), old.Spec.(*gateway.Instance).Filter)
		case err == nil && *old.Spec.(*gateway.Instance) != *in:
			_, err = tx.Update(res, 0)
		}
		return err
	})
	return err
}

// taken refuses a second gateway with the same name.
func taken(node string, is *gateway.Instance) error {
	return fault.New(fault.Invalid, "%s is connected and listens on %s, ports %d and %d: give another gateway a name (--name) and a token of its own; to give this one other ports, stop it first",
		node, is.Listen, is.HTTPPort, is.HTTPSPort)
}

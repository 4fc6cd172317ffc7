// Package enrol is how a node joins: with its token it tells the control plane
// what it is, and is told how to start and what its filter needs beyond xDS.
//
// There are two forms. A gateway instance says what it listens on. A proxy of a
// mesh says which Dataplane it is, or brings that along; then it owns the
// Dataplane and takes it away when it leaves.
package enrol

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
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

// RunningHeader is "true" where a gateway's Envoy runs already: it started while the
// control plane was away, and whoever is connected by its name is itself.
const RunningHeader = "Meshgate-Running"

// maxBody bounds a request and an answer in bytes. A Dataplane has some hundred
// bytes for each of its outbounds.
const maxBody = 1 << 20

// maxAnonymous bounds the body of whoever shows no good token in the header. The token
// may be in the body, and it says who is turned down, so some of it must be read.
const maxAnonymous = 64 << 10

// maxParses bounds how many bodies are parsed at once: a parsed one takes many times its
// size, and whoever reaches the port can send some. Reading one, which takes as long as
// the client likes, does not count. maxWaiting is how many wait for that.
const (
	maxParses  = 4
	maxWaiting = 1024
)

// parses are the turns of the bodies that are parsed in this process.
var parses = turns.Sized(maxParses, maxWaiting)

// Answer is what a node is told. It holds no secret. Where the second level of
// the token cache is, filters hear on their links, and only once they need it.
type Answer struct {
	// Node is the node id that the token stands for.
	Node string `json:"node"`
	// Bootstrap is what the Envoy of a mesh proxy starts with, as YAML.
	Bootstrap []byte `json:"bootstrap,omitempty"`
	// Warnings name members that meant nothing, if the request asked for warnings.
	Warnings []string `json:"warnings,omitempty"`
	// Unknown says that the control plane counts on no filter of the node, because there
	// was none, or because it was forgotten: what one left in the run directory is not to
	// be believed.
	Unknown bool `json:"unknown,omitempty"`
}

// Writer runs a transaction; [admit.Gate] is one.
type Writer interface {
	Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error)
}

// Server answers enrolments.
type Server struct {
	Store store.Store
	// Writer writes what gateways say of themselves; [admit.Gate] is one.
	Writer Writer
	Tokens *identity.Tokens
	// Enrolled, if set, hears of each gateway that has enrolled, by its node id.
	Enrolled func(ctx context.Context, node string)
	// Refused, if set, hears of each enrolment that is turned down for what its token is,
	// or for who it says it is, with the reason; proved says that the token was given to
	// the node, though it does not count.
	Refused func(node, reason string, proved bool)
	// Connected, if set, says whether a node is connected.
	Connected func(node string) bool
	// Remembers, if set, says whether the control plane counts on a filter of a node.
	Remembers func(node string) bool
	// Mesh is what proxies of meshes need; nil if there are none.
	Mesh *Mesh
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

// body reads a request, as much of it as its sender is trusted with.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	shown, limit := bearer(r), int64(maxAnonymous)
	var bad error
	if shown != "" {
		switch bad = s.vouched(r.Context(), shown); {
		case bad == nil:
			limit = maxBody
		case !fault.Is(bad, fault.Denied):
			return nil, bad // nobody can say now
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		if bad != nil {
			return nil, denied(bad)
		}
		return nil, fault.New(fault.TooLarge, "the enrolment is too large")
	}
	return body, err
}

// vouched checks the token of a header, whichever node it is for.
func (s *Server) vouched(ctx context.Context, token string) error {
	if s.Mesh == nil || identity.ClaimsGateway(token) {
		_, err := s.Tokens.Check(ctx, token)
		return err
	}
	return s.Mesh.Tokens.CheckToken(ctx, token)
}

// parse parses a body when there is room for one more.
func parse(ctx context.Context, body []byte) (*model.Object, error) {
	if err := parses.Enter(ctx); err != nil {
		return nil, err
	}
	defer parses.Leave()
	return model.ParseObject(body)
}

// fail answers a gateway.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	entry := httpkit.EntryOf(r.Context())
	entry.Code, entry.Cause = string(fault.CodeOf(err)), err
	code, doc := http.StatusInternalServerError, map[string]string{"message": httpkit.TextInternal}
	if e, ok := errors.AsType[*fault.Error](err); ok && statuses[e.Code] != 0 {
		code, doc = statuses[e.Code], map[string]string{"message": e.Error()}
		if e.Code == fault.Unstored { // its cause is for the log
			doc["message"] = e.Detail
		}
	}
	_ = httpkit.WriteJSON(w, code, doc) // a node that is gone asks again
}

// statuses has the codes that a node can do something about; any other is an
// unexpected error.
var statuses = map[fault.Code]int{
	fault.Denied: http.StatusUnauthorized, fault.Invalid: http.StatusUnprocessableEntity,
	fault.Unsupported: http.StatusMethodNotAllowed, fault.Unavailable: http.StatusServiceUnavailable,
	fault.TooLarge: http.StatusRequestEntityTooLarge, fault.Unstored: http.StatusInsufficientStorage,
}

// enrol takes in a gateway that has sent o, or what is not valid.
func (s *Server) enrol(r *http.Request, o *model.Object, bad error) (*Answer, error) {
	claims, err := s.Tokens.Check(r.Context(), bearer(r))
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

func (s *Server) answer(node string, bootstrap []byte) *Answer {
	return &Answer{Node: node, Bootstrap: bootstrap, Unknown: s.Remembers != nil && !s.Remembers(node)}
}

func notValid(err error) error {
	return fault.New(fault.Invalid, "the enrolment is not valid: %s", err)
}

// refused tells who was turned down, and why.
func (s *Server) refused(node string, err error) {
	if s.Refused != nil && (fault.Is(err, fault.Denied) || fault.Is(err, fault.Forbidden)) {
		s.Refused(node, err.Error(), identity.Proves(err, node))
	}
}

// denied tells a node what is wrong with its token, without the cause. What the control
// plane itself cannot do stays what it is: a node takes a refusal as final.
func denied(err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Code == fault.Denied {
		return fault.New(fault.Denied, "%s", e.Detail)
	}
	return err
}

func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
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

// remember stores what the node said, unless that is known already. While another
// gateway is connected by the name, what that listens on is not changed: it would close
// its ports and serve nobody, without a word.
func (s *Server) remember(ctx context.Context, c *identity.Claims, in *gateway.Instance, other bool) error {
	_, err := s.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
		res := &model.Resource{Kind: gateway.Instances, Scope: c.ControlPlane, Name: c.Name, Spec: in}
		old, err := tx.Get(gateway.Instances, c.ControlPlane, c.Name)
		switch {
		case fault.Is(err, fault.NotFound):
			_, err = tx.Create(res)
		case err == nil && other && !old.Spec.(*gateway.Instance).SameSockets(in):
			return taken(c.NodeID(), old.Spec.(*gateway.Instance))
		case err == nil && *old.Spec.(*gateway.Instance) != *in:
			_, err = tx.Update(res, 0)
		}
		return err
	})
	return err
}

// taken refuses a second gateway of a name.
func taken(node string, is *gateway.Instance) error {
	return fault.New(fault.Invalid, "%s is connected and listens on %s, ports %d and %d: give another gateway a name (--name) and a token of its own; to give this one other ports, stop it first",
		node, is.Listen, is.HTTPPort, is.HTTPSPort)
}

package oauth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/recall"
	"github.com/meshgate/meshgate/filter/contract"
)

// Writer is the one write path.
type Writer interface {
	Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error)
	// Settle waits until nothing that was revoked before can still be accepted by gateways
	// that accept credentials of some scopes, or of any if none is given.
	Settle(ctx context.Context, scopes ...string) error
}

// Options of a Server.
type Options struct {
	Store store.Store
	// Resolver tells which scopes the control planes of gateways consist of; nil means
	// [scopes.Each].
	Resolver scopes.Resolver
	Writer   Writer
	// Grants are the grants that exist, see [Grants].
	Grants []Grant
	// Limits of failed attempts; the zero value has its defaults.
	Limits Limits
	// Observer may be nil.
	Observer Observer
	Log      *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Server answers the endpoints of the oauth2 plugins of all gateways. It is an http.Handler
// for connections whose client certificates the caller has verified, if there are any; the
// caller need not demand them. Several servers may work on one store: what must happen once
// happens in one transaction.
type Server struct {
	Options
	grants   map[string]Grant
	failures *throttle
	hashing  hashing
	// judging reads what requests are judged by, and decoded holds its configurations.
	judging *recall.Cache
	decoded configurations
	// warned remembers for which plugin instances a legacy grant was logged.
	warned said
}

// New returns a Server.
func New(o Options) *Server {
	s := &Server{Options: o, grants: map[string]Grant{}, failures: newThrottle(o.Limits, o.Now), hashing: newHashing(), judging: judging(o.Store)}
	for _, g := range o.Grants {
		s.grants[g.Type()] = g
	}
	return s
}

// ServeHTTP answers one request that a gateway handed over.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	private(w)
	scope, node, ok := gatewayOf(r)
	plugin := r.Header.Get(contract.HeaderOAuthPlugin)
	if !ok || plugin == "" {
		_ = writeReply(w, http.StatusForbidden, message("only gateways may call this endpoint"))
		return
	}
	// Changes that clients cause are recorded as changes of their gateway.
	r = r.WithContext(model.WithActor(r.Context(), model.Node(node)))
	err := s.serve(w, r, scope, plugin)
	switch {
	case err == nil:
	case r.Context().Err() != nil && errors.Is(err, context.Canceled):
		// Nobody waits for an answer, and nothing has failed.
		s.Log.DebugContext(r.Context(), "oauth request ended: the client has left", "plugin", plugin, "error", err)
		_ = writeReply(w, http.StatusServiceUnavailable, message("try again later"))
	case fault.Is(err, fault.Unstored):
		// The store logs the reason once; a line for each client would fill the disk up.
		s.Log.DebugContext(r.Context(), "oauth request could not be served", "plugin", plugin, "error", err)
		_ = refuse(w, errUnstored, nil)
	case fault.Is(err, fault.NotFound), fault.Is(err, fault.Unavailable):
		s.Log.WarnContext(r.Context(), "oauth request could not be served", "plugin", plugin, "error", err)
		_ = writeReply(w, http.StatusServiceUnavailable, message("try again later"))
	default:
		s.Log.ErrorContext(r.Context(), "oauth request failed", "plugin", plugin, "error", err)
		_ = writeReply(w, http.StatusInternalServerError, message("An unexpected error occurred"))
	}
}

// attempts is how often a request is judged if changes overtake it.
const attempts = 3

// serve first reads what the client sends, and then the configuration that judges it. In the
// other order, a client could hold its body back and profit from a configuration that is no
// longer in force.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, scope, plugin string) (err error) {
	is, path := recognise(sentPath(r.URL))
	var sent *params
	var unreadable error
	if is.takesBody() && r.Method == http.MethodPost && r.Header.Get("Upgrade") == "" {
		sent, unreadable = readParams(w, r)
	}
	var t *Request
	defer func() { s.tell(is, t.outcome, err) }()
	for range attempts {
		t = &Request{
			Plugin: plugin, Service: r.Header.Get(contract.HeaderOAuthService), Scope: scope, clock: s.Now, resolver: s.Resolver,
			peer: r.Header.Get(contract.HeaderOAuthClient), failures: s.failures, params: sent, decoded: &s.decoded,
		}
		if err = s.judge(w, r, t, is, path, unreadable); !errors.Is(err, errOvertaken) {
			return err
		}
	}
	return fault.Wrap(fault.Unavailable, err, "judge a request")
}

// judge answers a request whose body was read. If it returns [errOvertaken], nothing was
// written and nothing stored.
func (s *Server) judge(w http.ResponseWriter, r *http.Request, t *Request, is endpoint, path string, unreadable error) error {
	if err := s.judging.View(r.Context(), func(tx store.Reader) (err error) {
		t.issuer = ""
		if err := t.configure(tx); err != nil {
			return err
		}
		if is.identified() && t.Config.HasEndpoints() {
			t.issuer, err = t.issuerOf(tx, r, path)
		}
		return err
	}); err != nil {
		return err
	}
	switch {
	case is == endpointUnknown, is.optional() && !t.Config.HasEndpoints():
		return writeReply(w, http.StatusNotFound, message("Not found"))
	case is == endpointMetadata:
		return s.metadata(w, r, t)
	case t.adrift(): // the route answers all requests like this
		t.outcome.reason = ReasonUnavailable
		return writeReply(w, http.StatusServiceUnavailable, message("no Service found with those values"))
	case r.Header.Get("Upgrade") != "": // the body of such a request does not end
		w.Header().Set("Connection", "close")
		return t.refuse(w, errUpgrade)
	case r.Method != http.MethodPost:
		return t.refuseMethod(w, r.Method, is.name(), http.MethodPost)
	case unreadable != nil:
		return t.refuse(w, errUnreadable)
	}
	t.judged()
	if e := checkHTTPS(t.Config, r); e != nil {
		return t.refuse(w, e)
	}
	if e := t.strictParams(); e != nil {
		return t.refuse(w, e)
	}
	return s.answer(w, r, t, is)
}

// answer answers a request whose parameters are known.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, t *Request, is endpoint) error {
	switch is {
	case endpointAuthorize:
		return s.authorize(w, r, t)
	case endpointIntrospect:
		return s.introspect(w, r, t)
	case endpointRevoke:
		return s.revoke(w, r, t)
	case endpointToken, endpointMetadata, endpointUnknown:
	}
	return s.token(w, r, t)
}

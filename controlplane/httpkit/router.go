package httpkit

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Endpoint is one method of one path. All routes of an API come from one slice of endpoints,
// and its OpenAPI document is made from the same slice.
type Endpoint struct {
	Method string
	// Pattern is a path pattern of net/http without method, such as
	// /services/{service}; without a trailing slash.
	Pattern string
	// Auth says who may call it; see [Enforce].
	Auth Authorisation
	// Where says where a request acts. If it is nil, requests act everywhere.
	Where func(*http.Request) access.Scope
	// Subject ends the sentence that tells a caller what it cannot access. Empty means
	// method and pattern.
	Subject string
	// Refusal, if set, returns this sentence instead.
	Refusal func(r *http.Request, who model.Actor) string
	// Summary is one line for documentation.
	Summary string
	// Contract says what the endpoint accepts and answers. The OpenAPI documents are made
	// from it.
	Contract Contract
	Handler  http.HandlerFunc
}

// About returns the endpoint with a handler that records the kind of its resources in the
// log.
func (e Endpoint) About(kind string) Endpoint {
	next := e.Handler
	e.Handler = func(w http.ResponseWriter, r *http.Request) {
		EntryOf(r.Context()).Kind = kind
		next(w, r)
	}
	return e
}

// Closed returns the endpoint with a closed contract; see [Contract].
func (e Endpoint) Closed() Endpoint {
	e.Contract.Closed = true
	return e
}

// Contract is what a caller sends and receives.
type Contract struct {
	// Query lists the known parameters of the query.
	Query []Parameter
	// Closed refuses all other parameters. Endpoints that peers have had for years ignore
	// them, and clients rely on that. On an endpoint of our own, a mistyped parameter would
	// show, or remove, more than was meant.
	Closed bool
	// Body names the schema of the request body, or is empty if none is read.
	Body string
	// Answers names the schema of each answer by status. An empty name means an answer
	// without a body.
	Answers map[int]string
}

// Parameter is one parameter of a query. Type is a type of JSON Schema.
type Parameter struct{ Name, Type, Summary string }

// Router dispatches to endpoints. HEAD runs the GET endpoint, and OPTIONS is answered from
// the list. A trailing slash makes no difference.
type Router struct {
	mux    *http.ServeMux
	rules  *access.Rules
	refuse Refuse
	// root says what an API is; nil if nothing does.
	root *Endpoint
	// notFound and notAllowed answer for paths and methods that there are not.
	notFound, notAllowed http.HandlerFunc
}

// NewRouter returns a router without rules, for APIs of which everything is open or for
// administrators; see [NewRuledRouter].
func NewRouter(endpoints []Endpoint, refuse Refuse) *Router {
	return NewRuledRouter(endpoints, nil, refuse)
}

// NewRuledRouter returns a router that calls a handler only for callers that rules permit, see
// [Enforce]; refuse answers the others. It panics on endpoints that contradict each other or declare
// nothing, because this is a mistake in the program.
func NewRuledRouter(endpoints []Endpoint, rules *access.Rules, refuse Refuse) *Router {
	rt := &Router{mux: http.NewServeMux(), rules: rules, refuse: refuse, notFound: NotFound, notAllowed: MethodNotAllowed}
	paths := map[string]map[string]Endpoint{}
	for _, e := range endpoints {
		if paths[e.Pattern] == nil {
			paths[e.Pattern] = map[string]Endpoint{}
		}
		if _, twice := paths[e.Pattern][e.Method]; twice {
			panic("httpkit: endpoint declared twice: " + e.Method + " " + e.Pattern)
		}
		paths[e.Pattern][e.Method] = e
	}
	for pattern, methods := range paths {
		mounted := pattern
		if pattern == "/" {
			mounted = "/{$}"
			if e, ok := methods[http.MethodGet]; ok {
				rt.root = &e
			}
		}
		rt.mux.Handle(mounted, rt.path(pattern, methods))
	}
	rt.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { rt.missing(rt.notFound)(w, r) })
	return rt
}

// Missing replaces the answers for paths that do not exist, and for methods that a path does not
// have; the header Allow is set before. It is called before the router serves anything.
func (rt *Router) Missing(notFound, notAllowed http.HandlerFunc) *Router {
	rt.notFound, rt.notAllowed = notFound, notAllowed
	return rt
}

// missing returns next for callers with an identity. Where an API does not even say to others what
// it is, they do not learn either which paths and methods there are.
func (rt *Router) missing(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if rt.root != nil && CallerOf(r).Name == model.UserAnonymous {
			if err := Permit(rt.rules, r, rt.root.Auth, rt.root.scope(r), rt.root.refusal(r)); err != nil {
				rt.refuse(w, r, err)
				return
			}
		}
		next(w, r)
	}
}

// path serves the methods of one pattern.
func (rt *Router) path(pattern string, methods map[string]Endpoint) http.Handler {
	handlers := make(map[string]http.Handler, len(methods)+1)
	least := methods[http.MethodGet]
	for method, e := range methods {
		handlers[method] = Enforce(e, rt.rules, rt.refuse)
	}
	if get, ok := handlers[http.MethodGet]; ok {
		handlers[http.MethodHead] = get
	}
	allow := strings.Join(slices.Sorted(maps.Keys(withOptions(handlers))), ", ")
	options := Endpoint{Method: http.MethodOptions, Pattern: pattern, Auth: cmp.Or(least.Auth, Administrator), Where: least.Where, Handler: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", allow)
		w.Header().Set("Access-Control-Allow-Methods", allow)
		w.WriteHeader(http.StatusNoContent)
	}}
	handlers[http.MethodOptions] = Enforce(options, rt.rules, rt.refuse)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		EntryOf(r.Context()).Pattern = pattern
		h, ok := handlers[r.Method]
		if !ok {
			rt.missing(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Allow", allow)
				rt.notAllowed(w, r)
			})(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func withOptions(handlers map[string]http.Handler) map[string]http.Handler {
	m := maps.Clone(handlers)
	m[http.MethodOptions] = nil
	return m
}

// ServeHTTP implements http.Handler.
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	trimmed := path
	if len(path) > 1 {
		trimmed = strings.TrimSuffix(path, "/")
	}
	if !strings.HasPrefix(trimmed, "/") || odd(trimmed) {
		rt.notFound(w, r) // the mux would answer with a redirect
		return
	}
	if trimmed != path {
		clone := *r
		u := *r.URL
		u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
		clone.URL = &u
		r = &clone
	}
	rt.mux.ServeHTTP(w, r)
}

// odd reports whether a path has empty or dot segments.
func odd(path string) bool {
	if path == "/" {
		return false
	}
	for s := range strings.SplitSeq(path[1:], "/") {
		if s == "" || s == "." || s == ".." {
			return true
		}
	}
	return false
}

// NotFound answers for paths that do not exist.
func NotFound(w http.ResponseWriter, _ *http.Request) {
	WriteMessage(w, http.StatusNotFound, "Not found")
}

// MethodNotAllowed answers for methods that a path does not have.
func MethodNotAllowed(w http.ResponseWriter, _ *http.Request) {
	WriteMessage(w, http.StatusMethodNotAllowed, "Method not allowed")
}

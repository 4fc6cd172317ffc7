package meshapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// router dispatches to endpoints as clients of this API expect. Unlike [httpkit.Router], it
// ignores empty segments of a path and decodes each segment separately (an encoded slash
// separates nothing). HEAD and OPTIONS are methods like others, and the answers for wrong
// paths and methods are plain text.
type router struct{ root *segment }

// segment is one step of the patterns. A literal child has precedence over the variable one
// if it leads to an endpoint.
type segment struct {
	literal  map[string]*segment
	variable *segment
	// pattern, the names of its variables, and its handlers by method, which enforce the
	// authorisation of their endpoints. They are empty if no pattern ends here.
	pattern string
	names   []string
	methods map[string]http.Handler
	allow   string
}

// allowOrder is the order of methods in Allow.
var allowOrder = []string{http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodGet}

// newRouter returns a router that calls a handler only if its endpoint permits the caller,
// see [httpkit.Enforce]. It panics on endpoints that contradict each other or declare no
// authorisation.
func newRouter(endpoints []httpkit.Endpoint, rules *access.Rules, refuse httpkit.Refuse) *router {
	rt := &router{root: &segment{}}
	for _, e := range endpoints {
		if !slices.Contains(allowOrder, e.Method) {
			panic("meshapi: endpoint of an unknown method: " + e.Method + " " + e.Pattern)
		}
		rt.root.add(e, rules, refuse)
	}
	return rt
}

func (s *segment) add(e httpkit.Endpoint, rules *access.Rules, refuse httpkit.Refuse) {
	var names []string
	for _, part := range split(e.Pattern) {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
			part = ""
		}
		s = s.child(part)
	}
	if _, twice := s.methods[e.Method]; twice {
		panic("meshapi: endpoint declared twice: " + e.Method + " " + e.Pattern)
	}
	if s.methods == nil {
		s.pattern, s.names, s.methods = e.Pattern, names, map[string]http.Handler{}
	}
	s.methods[e.Method] = httpkit.Enforce(e, rules, refuse)
	var allow []string
	for _, m := range allowOrder {
		if _, ok := s.methods[m]; ok {
			allow = append(allow, m)
		}
	}
	s.allow = strings.Join(allow, ", ")
}

// child returns the step for a literal part, or for a variable if part is "".
func (s *segment) child(part string) *segment {
	if part == "" {
		if s.variable == nil {
			s.variable = &segment{}
		}
		return s.variable
	}
	if s.literal == nil {
		s.literal = map[string]*segment{}
	}
	if s.literal[part] == nil {
		s.literal[part] = &segment{}
	}
	return s.literal[part]
}

// find returns the step where a path ends, and the values of its variables.
func (s *segment) find(parts, values []string) (*segment, []string) {
	if len(parts) == 0 {
		if s.methods == nil {
			return nil, nil
		}
		return s, values
	}
	if child := s.literal[parts[0]]; child != nil {
		if end, v := child.find(parts[1:], values); end != nil {
			return end, v
		}
	}
	if s.variable == nil {
		return nil, nil
	}
	return s.variable.find(parts[1:], append(values, parts[0]))
}

// ServeHTTP implements http.Handler.
func (rt *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := split(r.URL.EscapedPath())
	for i := range parts {
		var err error
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			page(w, http.StatusNotFound, textNotFound)
			return
		}
	}
	end, values := rt.root.find(parts, nil)
	if end == nil {
		page(w, http.StatusNotFound, textNotFound)
		return
	}
	httpkit.EntryOf(r.Context()).Pattern = end.pattern
	h, ok := end.methods[r.Method]
	if !ok {
		w.Header().Set("Allow", end.allow)
		page(w, http.StatusMethodNotAllowed, "405: Method Not Allowed")
		return
	}
	for i, name := range end.names { // they say where the request acts
		r.SetPathValue(name, values[i])
	}
	h.ServeHTTP(w, r)
}

// split returns the segments of a path that are not empty.
func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" })
}

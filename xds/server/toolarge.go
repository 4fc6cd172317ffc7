package server

import (
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/xds/resource"
)

// MaxResponse is the largest response in bytes that an agent takes. A larger one ends its stream, and
// every stream after it. gRPC's default of 4 MiB is too small for one large route table.
const MaxResponse = 64 << 20

// besides is room for what a response holds besides a resource: names, versions, removals.
const besides = 1 << 20

// sendable leaves out what no agent would take. It counts as refused, and what the proxy has under
// that name stays in force: everything else still arrives.
func (s *session) sendable(t *typed, rs []*resource.Resource) []*resource.Resource {
	if s.sotw { // an agent asks for changes only
		return rs
	}
	return slices.DeleteFunc(rs, func(r *resource.Resource) bool {
		if len(r.Body) <= s.limits.ResourceBytes {
			return false
		}
		s.turnDown(t, r)
		return true
	})
}

func (s *session) turnDown(t *typed, r *resource.Resource) {
	a := &answer{refused: true, response: &response{typ: t.url, state: s.state, add: []*resource.Resource{r}}}
	a.text = fmt.Sprintf("%s: it was not sent, because it has %d bytes, and proxies take at most %d", r.Name, len(r.Body), s.limits.ResourceBytes)
	f := &refusal{versions: map[string]string{r.Name: r.Version}, revision: t.since(a.response), text: a.text, bytes: len(r.Name), unsent: true}
	t.known[r.Name] = held{version: r.Version}
	delete(t.due, r.Name)
	t.forgive(r.Name)
	t.went(r.Name)
	t.refused = append(t.refused, f)
	s.turnedDown = append(s.turnedDown, a)
}

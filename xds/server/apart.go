package server

import (
	"slices"
	"strings"

	"github.com/meshgate/meshgate/xds/resource"
)

// maxApart is how many responses more the refused responses of one state may cause. One bad
// resource of thousands is found with 26. Each costs the proxy as much as any other change.
const maxApart = 256

// apart is a part of a refused response that is sent by itself, because the proxy did not say
// which resource it refused.
type apart struct {
	names []string
	// frees is that of the refused response: its names no longer tell what the proxy had of them.
	frees bool
}

// divide sends a refused response again in halves, unless the proxy has said which resources it
// means. A response may be refused because of one resource; all others would be held back with
// it. Halves of halves follow until each bad resource was refused alone. It returns false if the
// refusal has to stand as it is.
//
// An agent names what it refuses and applies the rest. So does an Envoy with clusters and
// listeners that it could decode. It hands each route table, assignment and secret to whom it
// belongs, and stops at the first one that is refused; it quotes one that it could not decode.
// Names in such texts may mean anything.
func (s *session) divide(t *typed, a *answer, f *refusal) bool {
	var names []string
	for _, r := range a.response.add {
		// The empty assignment of a cluster that is no more is sent among removals.
		if t.url != resource.Endpoint || s.state.Set.Get(t.url, r.Name) != nil {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	if s.sotw || len(names) < 2 || a.named {
		return false
	}
	if !s.search(a.response.state.Version) {
		return false
	}
	half := len(names) / 2
	t.aparts = slices.Insert(t.aparts, 0,
		&apart{slices.Clone(names[:half]), a.response.frees}, &apart{slices.Clone(names[half:]), a.response.frees})
	s.redo(t, f)
	s.unconfirm(a.response)
	return true
}

// search takes two responses more in search of what is refused of a state, and reports whether there
// were any left. What belongs to an older state takes part in the newest search; parts of an older
// search that are sent with a newer state belong to that.
func (s *session) search(version uint64) bool {
	if version > s.searched {
		s.searched, s.searchLeft = version, maxApart
	}
	if s.searchLeft < 2 {
		return false
	}
	s.searchLeft -= 2
	return true
}

// turn selects what is sent next of the resources that are due. While parts of a refused response
// are left it is one of them; what has become due since follows, so that nothing else is refused
// with them.
func (t *typed) turn(due []*resource.Resource) ([]*resource.Resource, *apart) {
	for len(t.aparts) > 0 {
		p := t.aparts[0]
		var of []*resource.Resource
		for _, r := range due {
			if _, found := slices.BinarySearch(p.names, r.Name); found {
				of = append(of, r)
			}
		}
		if len(of) > 0 {
			return of, p
		}
		t.aparts = t.aparts[1:] // nothing of it is wanted any more
	}
	return due, nil
}

// went notes that a name of a part is sent.
func (t *typed) went(name string) {
	t.aparts = slices.DeleteFunc(t.aparts, func(p *apart) bool {
		if i, found := slices.BinarySearch(p.names, name); found {
			p.names = slices.Delete(p.names, i, i+1)
		}
		return len(p.names) == 0
	})
}

// told returns a proxy's reason as it is kept: safe to show, and with the names of the resources
// that are meant, as far as the proxy or the response says which those are.
func told(t *typed, raw string, named bool, refused []*resource.Resource) string {
	text := safeText(t.url, raw, refused)
	var names []string
	for _, r := range refused {
		if (len(refused) == 1 || named && Mentions(raw, r.Name)) && !Mentions(text, r.Name) {
			names = append(names, r.Name)
		}
	}
	if len(names) == 0 {
		return text
	}
	return strings.Join(names[:min(len(names), maxNamed)], ", ") + ": " + text
}

// maxNamed is how many names are put before a reason.
const maxNamed = 8

// Meant selects the names that a refusal mentions, or all if it mentions none.
func Meant(text string, names []string) []string {
	var out []string
	for _, n := range names {
		if Mentions(text, n) {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return names
	}
	return out
}

// names reports whether a proxy's reason says which resources of its response are refused.
func (s *session) names(t *typed, text string, rs []*resource.Resource) bool {
	agent := s.types[resource.Route].wildcard // no Envoy asks for all routes
	believed := agent || t.wildcard && strings.HasPrefix(text, listing)
	return believed && slices.ContainsFunc(rs, func(r *resource.Resource) bool { return Mentions(text, r.Name) })
}

// listing is how Envoy begins to list refused clusters and listeners, each with its reason.
const listing = "Error adding/updating "

package draft

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// identities is the header in which an inbound of the mesh is told who calls. Envoy
// writes it anew from the certificate of the connection, and takes away what a caller
// says himself, also where there is no certificate. It lists the names of the
// certificate, which are sorted: those of tags, and then those of services, so that
// every name of a tag is followed by a semicolon. No name has one.
const identities = "x-forwarded-client-cert"

// Callers are those for whom all of some matchers hold; without any it is everybody.
type Callers []*routev3.HeaderMatcher

// FromSources says who the callers are that some sources select, by what their
// certificates prove: those of one element or of another. One that is everybody stands
// alone. Whoever has no certificate is of none but that. No caller is of two, unless he
// has all tags of two sources that both ask for several.
func FromSources(sources []mesh.Selector) (out []Callers) {
	var asked []mesh.Tags
	for _, s := range sources {
		tags := maps.Clone(s.Match)
		if tags[mesh.TagService] == mesh.AnyValue {
			delete(tags, mesh.TagService) // every proxy has one
		}
		if len(tags) == 0 {
			return []Callers{nil}
		}
		if possible(tags) {
			asked = append(asked, tags)
		}
	}
	// Sources that ask for fewer tags come first, and their callers are nobody else's.
	slices.SortFunc(asked, func(a, b mesh.Tags) int {
		if d := len(a) - len(b); d != 0 {
			return d
		}
		return strings.Compare(a.String(), b.String())
	})
	asked = slices.CompactFunc(asked, func(a, b mesh.Tags) bool { return a.String() == b.String() })
	var others Callers
	for i, tags := range asked {
		if slices.ContainsFunc(asked[:i], func(wider mesh.Tags) bool { return mesh.Matches(wider, tags) }) {
			continue
		}
		own := identified(tags)
		if out = append(out, append(own, others...)); len(own) == 1 {
			not := proto.CloneOf(own[0])
			not.InvertMatch = true
			others = append(others, not)
		}
	}
	return out
}

// possible reports whether a proxy can have some tags: no value has a slash, but the name
// of a longer key may look alike.
func possible(tags mesh.Tags) bool {
	for _, value := range tags {
		if strings.Contains(value, "/") {
			return false
		}
	}
	return true
}

// longestKey is the length up to which Envoy takes the pattern of a key.
const longestKey = 48

// identified matches those who have some tags, whichever others they have.
func identified(tags mesh.Tags) (out Callers) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		m := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Contains{Contains: ";URI=" + mesh.TagURI(key, tags[key]) + ";"}}
		if begin := ";URI=" + mesh.TagURI(key, ""); tags[key] == mesh.AnyValue && len(key) <= longestKey {
			// Not a longer key of which this is the beginning.
			m.MatchPattern = &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: ".*" + regexp.QuoteMeta(begin) + "[^/;]+;.*"}}
		} else if tags[key] == mesh.AnyValue {
			m.MatchPattern = &matcherv3.StringMatcher_Contains{Contains: begin}
		}
		out = append(out, &routev3.HeaderMatcher{Name: identities, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: m}})
	}
	return out
}

// ForSources returns routes to clusters for those alone that some sources select; they
// are for settings that are about one source. The routes are new, unless that is
// everybody, and come before those for everybody and behind those that were asked for
// before: of two that are about one caller the first to ask has him.
func (r *Routes) ForSources(sources []mesh.Selector) (own []*routev3.Route) {
	special := func(route *routev3.Route) bool {
		return slices.ContainsFunc(route.GetMatch().GetHeaders(), func(h *routev3.HeaderMatcher) bool { return h.GetName() == identities })
	}
	at := slices.IndexFunc(r.Host.Routes, func(route *routev3.Route) bool { return !special(route) })
	if at < 0 {
		return nil
	}
	general := r.Host.Routes[at:]
	for _, callers := range FromSources(sources) {
		for _, route := range general {
			if route.GetRoute() == nil {
				continue
			}
			if len(callers) > 0 {
				route = proto.CloneOf(route)
				route.Match.Headers = append(route.Match.Headers, callers...)
			}
			own = append(own, route)
		}
	}
	if len(own) > 0 && special(own[0]) {
		r.Host.Routes = slices.Concat(r.Host.Routes[:at], own, general)
	}
	return own
}

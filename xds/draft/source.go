package draft

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// identities is the header that tells an inbound of the mesh who calls. Envoy sets it from the
// certificate of the connection and removes what a caller sends itself, even if there is no
// certificate. It lists the names in the order of the certificate, where one of a service comes
// last. So every name of a tag is followed by a semicolon, and no name contains one.
const identities = "x-forwarded-client-cert"

// Callers describes the callers for which all matchers hold. Without matchers it means
// everybody.
type Callers []*routev3.HeaderMatcher

// FromSources describes the callers that some sources select, as far as their certificates
// prove it. A caller is selected if one of the elements describes it. An element for everybody
// stands alone; only that one includes callers without a certificate. No caller is in two
// elements, unless it has all tags of two sources that both ask for several tags.
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
	// Sources with fewer tags come first, and later elements exclude their callers.
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

// possible reports whether a proxy can have some tags. No tag value contains a slash; with
// one, the name of a longer key could look the same.
func possible(tags mesh.Tags) bool {
	for _, value := range tags {
		if strings.Contains(value, "/") {
			return false
		}
	}
	return true
}

// longestKey is the length of a key up to which Envoy accepts the pattern.
const longestKey = 48

// identified matches the callers that have some tags, whatever other tags they have.
func identified(tags mesh.Tags) (out Callers) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		m := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Contains{Contains: ";URI=" + mesh.TagURI(key, tags[key]) + ";"}}
		if begin := ";URI=" + mesh.TagURI(key, ""); tags[key] == mesh.AnyValue && len(key) <= longestKey {
			// The pattern does not match a longer key with the same beginning.
			m.MatchPattern = &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: ".*" + regexp.QuoteMeta(begin) + "[^/;]+;.*"}}
		} else if tags[key] == mesh.AnyValue {
			m.MatchPattern = &matcherv3.StringMatcher_Contains{Contains: begin}
		}
		out = append(out, &routev3.HeaderMatcher{Name: identities, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: m}})
	}
	return out
}

// ForSources edits the routes to clusters that only the callers selected by some sources
// take. They are for settings about one source. The routes are copies, unless the sources
// select everybody. They come before the routes for everybody and after those from earlier
// calls, so if two calls select the same caller, the first one applies. Routes that answer by
// themselves are copied too: these callers get the same answers as everybody. It fails if the
// copies of all calls have more than maxDivided bytes.
func (r *Routes) ForSources(sources []mesh.Selector, edit func(*routev3.Route)) error {
	special := func(route *routev3.Route) bool {
		return slices.ContainsFunc(route.GetMatch().GetHeaders(), func(h *routev3.HeaderMatcher) bool { return h.GetName() == identities })
	}
	at := slices.IndexFunc(r.Host.Routes, func(route *routev3.Route) bool { return !special(route) })
	if at < 0 {
		return nil
	}
	size := 0
	for _, route := range r.Host.Routes[:at] {
		size += proto.Size(route)
	}
	general := r.Host.Routes[at:]
	var own []*routev3.Route
	for _, callers := range FromSources(sources) {
		for _, route := range general {
			if len(callers) > 0 {
				route = proto.CloneOf(route)
				route.Match.Headers = append(route.Match.Headers, callers...)
				own = append(own, route)
			}
			if route.GetRoute() != nil {
				edit(route)
			}
			if len(callers) == 0 {
				continue
			}
			if size += proto.Size(route); size > maxDivided {
				return fmt.Errorf("%d routes for groups of callers are more than %d MiB", at+len(own), maxDivided>>20)
			}
		}
	}
	r.Host.Routes = slices.Concat(r.Host.Routes[:at], own, general)
	return nil
}

// Division says what becomes of the routes of some callers.
type Division struct {
	// Source are the tags of the callers; none for everybody.
	Source mesh.Tags
	Edit   func(*routev3.Route) error
}

// maxDivided is how many bytes the divided routes of one inbound may have. Every route is
// repeated for every division, with all that it carries, and a proxy takes 64 MiB at once.
const maxDivided = 4 << 20

// Divide divides every route by who calls. A caller takes the route of the first division that
// is about it, and what no division is about is edited by otherwise. In contrast to
// [Routes.ForSources] every caller has all routes before and after, so that nobody is left out
// whom others have given routes of their own. It fails if that makes more than maxDivided bytes.
func (r *Routes) Divide(of []Division, otherwise func(*routev3.Route) error) error {
	var divided []*routev3.Route
	size := 0
	take := func(route *routev3.Route, edit func(*routev3.Route) error) error {
		if err := edit(route); err != nil {
			return err
		}
		if size += proto.Size(route); size > maxDivided {
			return fmt.Errorf("%d routes for %d groups of callers are more than %d MiB", len(r.Host.Routes), len(of), maxDivided>>20)
		}
		divided = append(divided, route)
		return nil
	}
	for _, route := range r.Host.Routes {
		rest := otherwise
		for _, d := range of {
			if len(d.Source) == 0 {
				rest = d.Edit
				break
			}
			for _, callers := range FromSources([]mesh.Selector{{Match: d.Source}}) {
				own := proto.CloneOf(route)
				own.Match.Headers = append(own.Match.Headers, callers...)
				if err := take(own, d.Edit); err != nil {
					return err
				}
			}
		}
		if err := take(route, rest); err != nil {
			return err
		}
	}
	r.Host.Routes = divided
	return nil
}

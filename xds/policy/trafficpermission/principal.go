package trafficpermission

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// caller is what a certificate has to hold for one source: for each of these matchers a
// name that it matches. Everything that tells who may come is made of callers.
type caller []*matcherv3.StringMatcher

// callers are those that the sources select: a peer passes if and only if one of the
// selectors matches the tags in its certificate. Sources that say the same in another
// order, or twice, make the same callers.
func callers(meshName string, sources []mesh.Selector) []caller {
	byTags := map[string]caller{}
	for _, s := range sources {
		if c := callerOf(meshName, s.Match); c != nil {
			byTags[s.Match.String()] = c
		}
	}
	out := make([]caller, 0, len(byTags))
	for _, k := range slices.Sorted(maps.Keys(byTags)) {
		out = append(out, byTags[k])
	}
	return out
}

// callerOf is whom one selector matches; nil if there can be nobody.
func callerOf(meshName string, match mesh.Tags) caller {
	var all caller
	for _, key := range slices.Sorted(maps.Keys(match)) {
		value := match[key]
		switch {
		case key == mesh.TagService && value == mesh.AnyValue:
			all = append(all, member(meshName))
		case key == mesh.TagService:
			all = append(all, exactly(mesh.SPIFFE(meshName, value)))
		case value == mesh.AnyValue:
			all = append(all, tagged(key))
		case strings.Contains(value, "/"):
			// No tag has such a value, but the URI of a longer key may look alike.
			return nil
		default:
			all = append(all, exactly(mesh.TagURI(key, value)))
		}
	}
	if len(all) == 0 {
		return caller{member(meshName)}
	}
	return all
}

// principals are callers as rules name them, which can ask for several names at once.
func principals(of []caller) []*rbacv3.Principal {
	out := make([]*rbacv3.Principal, 0, len(of))
	for _, c := range of {
		ids := make([]*rbacv3.Principal, 0, len(c))
		for _, name := range c {
			ids = append(ids, &rbacv3.Principal{Identifier: &rbacv3.Principal_Authenticated_{
				Authenticated: &rbacv3.Principal_Authenticated{PrincipalName: name},
			}})
		}
		if len(ids) == 1 {
			out = append(out, ids[0])
			continue
		}
		out = append(out, &rbacv3.Principal{Identifier: &rbacv3.Principal_AndIds{AndIds: &rbacv3.Principal_Set{Ids: ids}}})
	}
	return out
}

// peers are callers as a handshake can ask for them: a certificate passes if any matcher
// matches any of its names. It can ask for one name only, so it may let more pass than are
// callers, and never fewer. That one name says which mesh it is of, which those of tags do
// not: roots may be shared with another mesh. So of a caller that is told by its tags
// alone, every proxy of the mesh passes.
func peers(meshName string, of []caller) []*matcherv3.StringMatcher {
	byName := map[string]*matcherv3.StringMatcher{}
	for _, c := range of {
		i := slices.IndexFunc(c, func(m *matcherv3.StringMatcher) bool {
			return strings.HasPrefix(m.GetExact(), mesh.SPIFFE(meshName, ""))
		})
		if i < 0 {
			return []*matcherv3.StringMatcher{member(meshName)}
		}
		byName[c[i].GetExact()] = c[i]
	}
	if len(byName) == 0 {
		// An empty list would be everybody. No service is without a name.
		return []*matcherv3.StringMatcher{exactly(mesh.SPIFFE(meshName, ""))}
	}
	out := make([]*matcherv3.StringMatcher, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out
}

// member is every proxy of the mesh.
func member(meshName string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: mesh.SPIFFE(meshName, "")}}
}

// exactly is the proxies with an identity. Identities come from users and are
// never read as patterns.
func exactly(uri string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: uri}}
}

// tagged is the proxies with a tag, whatever its value. A prefix would take a
// longer key for a value of this one: keys may hold slashes, values may not.
func tagged(key string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
		SafeRegex: &matcherv3.RegexMatcher{Regex: regexp.QuoteMeta(mesh.TagURI(key, "")) + "[^/]+"},
	}}
}

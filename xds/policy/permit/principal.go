package permit

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// caller is what a certificate must contain for one source: for each matcher a name that it
// matches. All checks of callers are made from it.
type caller []*matcherv3.StringMatcher

// callers returns the callers that the sources select: a peer passes if and only if one of the
// selectors matches the tags in its certificate. Equal sources in another order, or repeated,
// make the same callers.
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

// callerOf returns the caller that a selector matches, or nil if nobody can match.
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
			// No tag has such a value, but the URI of a longer key may look the same.
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

// principals returns callers in the form of rules, which can require several names at once.
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

// peers returns callers in a form for handshakes: a certificate passes if any matcher matches
// any of its names. A handshake can require only one name, so it may let more peers pass than
// rules do, but never fewer. That name must say which mesh it belongs to, because roots may be
// shared with another mesh. Names of tags do not say it. So if a caller is identified only by
// its tags, every proxy of the mesh passes.
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
		// An empty list would permit everybody. No service has an empty name.
		return []*matcherv3.StringMatcher{exactly(mesh.SPIFFE(meshName, ""))}
	}
	out := make([]*matcherv3.StringMatcher, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out
}

// member matches every proxy of the mesh.
func member(meshName string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: mesh.SPIFFE(meshName, "")}}
}

// exactly matches the proxies with an identity. Identities come from users and are never read
// as patterns.
func exactly(uri string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: uri}}
}

// tagged matches the proxies with a tag, whatever its value. A prefix would also match a
// longer key: keys may contain slashes, values may not.
func tagged(key string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
		SafeRegex: &matcherv3.RegexMatcher{Regex: regexp.QuoteMeta(mesh.TagURI(key, "")) + "[^/]+"},
	}}
}

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

// principals are the peers that the sources select: a peer passes if and only if
// one of the selectors matches the tags in its certificate. Sources that say the
// same in another order, or twice, make the same principals.
func principals(meshName string, sources []mesh.Selector) []*rbacv3.Principal {
	byTags := map[string]*rbacv3.Principal{}
	for _, s := range sources {
		if p := principal(meshName, s.Match); p != nil {
			byTags[s.Match.String()] = p
		}
	}
	out := make([]*rbacv3.Principal, 0, len(byTags))
	for _, k := range slices.Sorted(maps.Keys(byTags)) {
		out = append(out, byTags[k])
	}
	return out
}

// principal is the peers that one selector matches; nil if there can be none.
func principal(meshName string, match mesh.Tags) *rbacv3.Principal {
	var all []*rbacv3.Principal
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
	switch len(all) {
	case 0:
		return member(meshName)
	case 1:
		return all[0]
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_AndIds{AndIds: &rbacv3.Principal_Set{Ids: all}}}
}

// member is every proxy of the mesh.
func member(meshName string) *rbacv3.Principal {
	return authenticated(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: mesh.SPIFFE(meshName, "")}})
}

// exactly is the proxies with an identity. Identities come from users and are
// never read as patterns.
func exactly(uri string) *rbacv3.Principal {
	return authenticated(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: uri}})
}

// tagged is the proxies with a tag, whatever its value. A prefix would take a
// longer key for a value of this one: keys may hold slashes, values may not.
func tagged(key string) *rbacv3.Principal {
	return authenticated(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
		SafeRegex: &matcherv3.RegexMatcher{Regex: regexp.QuoteMeta(mesh.TagURI(key, "")) + "[^/]+"},
	}})
}

func authenticated(name *matcherv3.StringMatcher) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Authenticated_{
		Authenticated: &rbacv3.Principal_Authenticated{PrincipalName: name},
	}}
}

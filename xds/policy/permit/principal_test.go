package permit

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// identity returns the names in the certificate of a proxy with these tags.
func identity(meshName string, tags mesh.Tags) []string {
	uris := []string{mesh.SPIFFE(meshName, tags.Service())}
	for k, v := range tags {
		uris = append(uris, mesh.TagURI(k, v))
	}
	return uris
}

// holds evaluates a principal as Envoy does: one of the names must match.
func holds(p *rbacv3.Principal, uris []string) bool {
	if set := p.GetAndIds(); set != nil {
		return !slices.ContainsFunc(set.GetIds(), func(p *rbacv3.Principal) bool { return !holds(p, uris) })
	}
	if set := p.GetOrIds(); set != nil {
		return slices.ContainsFunc(set.GetIds(), func(p *rbacv3.Principal) bool { return holds(p, uris) })
	}
	if not := p.GetNotId(); not != nil {
		return !holds(not, uris)
	}
	return meets(p.GetAuthenticated().GetPrincipalName(), uris)
}

// meets evaluates a matcher as Envoy does in rules and in handshakes: any of the names may
// match.
func meets(m *matcherv3.StringMatcher, uris []string) bool {
	return slices.ContainsFunc(uris, func(uri string) bool {
		switch {
		case m.GetExact() != "":
			return uri == m.GetExact()
		case m.GetPrefix() != "":
			return strings.HasPrefix(uri, m.GetPrefix())
		case m.GetSafeRegex() != nil:
			return regexp.MustCompile(`^(?:` + m.GetSafeRegex().GetRegex() + `)$`).MatchString(uri)
		}
		return false
	})
}

// TestPrincipalsAgreeWithSelectors: a peer passes if and only if it belongs to the mesh and a
// source matches its tags.
func TestPrincipalsAgreeWithSelectors(t *testing.T) {
	keys := rapid.SampledFrom([]string{mesh.TagService, "team", "team/x", "mesh.io", "a.b", "axb"})
	rapid.Check(t, func(t *rapid.T) {
		tags := mesh.Tags(rapid.MapOfN(keys, rapid.SampledFrom([]string{"web", "api", "a.b", "axb"}), 0, 4).Draw(t, "tags"))
		if tags.Service() == "" {
			tags[mesh.TagService] = "web"
		}
		var sources []mesh.Selector
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			sources = append(sources, mesh.Selector{Match: rapid.MapOfN(keys,
				rapid.SampledFrom([]string{"*", "web", "api", "a.b", "axb", "x/web", ".*"}), 0, 3).Draw(t, "match")})
		}
		home := rapid.SampledFrom([]string{"demo", "demo2"}).Draw(t, "mesh")
		some := callers("demo", sources)
		greeted := slices.ContainsFunc(peers("demo", some), func(m *matcherv3.StringMatcher) bool { return meets(m, identity(home, tags)) })
		handshakes(t, sources, tags, home, greeted)
		want := home == "demo" && slices.ContainsFunc(sources, func(s mesh.Selector) bool { return mesh.Matches(s.Match, tags) })
		got := slices.ContainsFunc(principals(some), func(p *rbacv3.Principal) bool { return holds(p, identity(home, tags)) })
		if home == "demo2" && slices.ContainsFunc(sources, func(s mesh.Selector) bool {
			_, named := s.Match[mesh.TagService]
			return !named && len(s.Match) > 0
		}) {
			// Tag URIs do not name the mesh. The listener's own check of the peer's SPIFFE id
			// keeps other meshes out.
			return
		}
		if got && !greeted {
			t.Fatalf("peer %v of %s is permitted and fails the handshake, sources %v", tags, home, sources)
		}
		if got != want {
			t.Fatalf("peer %v of %s passes: %v, want %v, sources %v", tags, home, got, want, sources)
		}
	})
}

// handshakes checks that a handshake lets nobody of another mesh pass. Of this mesh it may let
// pass only the services that sources name, unless some source names no service.
func handshakes(t *rapid.T, sources []mesh.Selector, tags mesh.Tags, home string, passes bool) {
	want := home == "demo" && slices.ContainsFunc(sources, func(s mesh.Selector) bool {
		for key, value := range s.Match {
			if key != mesh.TagService && strings.Contains(value, "/") {
				return false // nobody
			}
		}
		named := s.Match[mesh.TagService]
		return named == "" || named == mesh.AnyValue || named == tags.Service()
	})
	if passes != want {
		t.Fatalf("peer %v of %s passes the handshake: %v, want %v, sources %v", tags, home, passes, want, sources)
	}
}

// sourced permits the callers that some sources select.
func sourced(t *testing.T, sources ...mesh.Selector) *Permission {
	t.Helper()
	p, err := Sources("demo", sources)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRulesOfEqualSources: the order of sources, and repetitions, make no difference.
func TestRulesOfEqualSources(t *testing.T) {
	bytesOf := func(sources ...mesh.Tags) string {
		var selectors []mesh.Selector
		for _, m := range sources {
			selectors = append(selectors, mesh.Selector{Match: m})
		}
		body, err := proto.MarshalOptions{Deterministic: true}.Marshal(sourced(t, selectors...).rules)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	a, b := mesh.Tags{mesh.TagService: "a", "team": "x"}, mesh.Tags{mesh.TagService: "b"}
	if bytesOf(a, b) != bytesOf(b, a, b) {
		t.Error("equal permissions differ")
	}
	if bytesOf(a, b) == bytesOf(a) {
		t.Error("different permissions are equal")
	}
}

// TestNobody: rules without sources, or with impossible ones, allow nothing.
func TestNobody(t *testing.T) {
	judged, err := Judged("demo", []Judgement{{Source: mesh.Tags{}}, {Source: mesh.Tags{"team": "a/b"}, Allow: true}})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*Permission{
		"none": Nobody("demo"), "impossible": sourced(t, mesh.Selector{Match: mesh.Tags{"team": "a/b"}}), "judged": judged,
	} {
		if r := p.rules; r.GetAction() != rbacv3.RBAC_ALLOW || len(r.GetPolicies()) > 0 {
			t.Errorf("%s: %v", name, r)
		}
		// An empty list would permit everybody.
		if len(p.peers) != 1 || meets(p.peers[0], identity("demo", mesh.Tags{mesh.TagService: "web", "team": "a"})) {
			t.Errorf("%s: a handshake lets pass %v", name, p.peers)
		}
	}
}

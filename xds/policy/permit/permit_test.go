package permit

import (
	"fmt"
	"slices"
	"testing"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// certificate returns the names in the certificate of a proxy with several inbounds.
func certificate(inbounds []mesh.Tags) (uris []string) {
	for _, tags := range inbounds {
		uris = append(uris, identity("demo", tags)...)
	}
	return uris
}

// admits evaluates rules as Envoy does.
func admits(r *rbacv3.RBAC, uris []string) bool {
	for _, p := range r.GetPolicies() {
		if slices.ContainsFunc(p.GetPrincipals(), func(p *rbacv3.Principal) bool { return holds(p, uris) }) {
			return true
		}
	}
	return false
}

// TestJudgedAgainstOracle: the first judgement that is about a caller decides, whatever the
// others say, also about a caller with several values of a tag. Who may pass also passes the
// handshake.
func TestJudgedAgainstOracle(t *testing.T) {
	keys := rapid.SampledFrom([]string{mesh.TagService, "team", "version"})
	values := rapid.SampledFrom([]string{"a", "b", "c"})
	tags := rapid.Custom(func(t *rapid.T) mesh.Tags { return rapid.MapOfN(keys, values, 0, 3).Draw(t, "tags") })
	rapid.Check(t, func(t *rapid.T) {
		var js []Judgement
		for range rapid.IntRange(0, 6).Draw(t, "n") {
			js = append(js, Judgement{Source: tags.Draw(t, "source"), Allow: rapid.Bool().Draw(t, "allow"), Doubt: rapid.Bool().Draw(t, "doubt")})
		}
		inbounds := rapid.SliceOfN(tags, 1, 2).Draw(t, "inbounds")
		for _, in := range inbounds {
			if in[mesh.TagService] == "" {
				in[mesh.TagService] = "a"
			}
		}
		has := func(key, value string) bool {
			return slices.ContainsFunc(inbounds, func(tags mesh.Tags) bool { return tags[key] == value })
		}
		var want Judgement
		for _, j := range js {
			all := true
			for key, value := range j.Source {
				all = all && has(key, value)
			}
			if all {
				want = j
				break
			}
		}
		p, err := Judged("demo", js)
		if err != nil {
			t.Fatal(err)
		}
		uris := certificate(inbounds)
		if got := admits(p.rules, uris); got != want.Allow {
			t.Fatalf("%v passes: %v, judgements are %v", inbounds, got, js)
		}
		noted := p.shadow
		if noted == nil {
			noted = p.rules
		}
		if got := admits(noted, uris); got != (want.Allow && !want.Doubt) {
			t.Fatalf("%v passes without a note: %v, judgements are %v", inbounds, got, js)
		}
		if want.Allow && !slices.ContainsFunc(p.peers, func(m *matcherv3.StringMatcher) bool { return meets(m, uris) }) {
			t.Fatalf("%v may pass and fails the handshake, judgements are %v", inbounds, js)
		}
	})
}

// TestTooManyJudgements: rules that would be too large are an error, which closes the inbound.
func TestTooManyJudgements(t *testing.T) {
	var js []Judgement
	for i := range 200 {
		js = append(js, Judgement{Source: mesh.Tags{"team": fmt.Sprintf("t%d", i)}, Allow: i%2 == 1})
	}
	if _, err := Judged("demo", js); err == nil {
		t.Error("no error")
	}
	if _, err := Judged("demo", js[:100]); err != nil {
		t.Error(err)
	}
}

// TestTooManySources: a permission that would be too large is an error, which closes the inbound.
func TestTooManySources(t *testing.T) {
	var sources []mesh.Selector
	for i := range maxTerms + 1 {
		sources = append(sources, mesh.Selector{Match: mesh.Tags{mesh.TagService: fmt.Sprint(i)}})
	}
	if p, err := Sources("demo", sources); err == nil || p != nil {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := Sources("demo", sources[1:]); err != nil {
		t.Error(err)
	}
}

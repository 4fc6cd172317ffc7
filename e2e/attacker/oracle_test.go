package attacker_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// policy says which identities may arrive with credentials that are good.
type policy func(tokens, keys []*secret) []identity

func identities(of []*secret) (out []identity) {
	for _, s := range of {
		out = append(out, s.tells)
	}
	return out
}

func none(_, _ []*secret) []identity         { return nil }
func everybody(_, _ []*secret) []identity    { return []identity{{}} }
func tokens(tokens, _ []*secret) []identity  { return identities(tokens) }
func keys(_, keys []*secret) []identity      { return identities(keys) }
func tokensOrKeys(t, k []*secret) []identity { return append(identities(t), identities(k)...) }
func tokensOrAnonymous(t, _ []*secret) []identity {
	return append(identities(t), anonymous)
}

// tokensAndKeys: the plugin that runs last, which is the key's, says who the
// consumer is; what the end user authorized stays.
func tokensAndKeys(tokens, keys []*secret) (out []identity) {
	for _, t := range tokens {
		user := maps.Clone(t.tells)
		maps.DeleteFunc(user, func(name, _ string) bool { return !strings.HasPrefix(name, "x-authenticated-") })
		for _, k := range keys {
			out = append(out, k.tells.with(user))
		}
	}
	return out
}

// identityNames are the headers by which an upstream knows who calls.
var identityNames = []string{
	"x-consumer-id", "x-consumer-custom-id", "x-consumer-username", "x-credential-identifier",
	"x-authenticated-scope", "x-authenticated-userid", "x-anonymous-consumer",
}

// identityFamilies begin the names of headers by which some upstream may know who
// calls, though no gateway of ours sets them.
var identityFamilies = []string{"x-consumer-", "x-credential-", "x-authenticated-", "x-envoy-original-"}

// placement is a secret in a request.
type placement struct {
	*secret
	// header is where it is, in lower case; empty in the query or the body.
	header string
}

// looks reports whether a target looks for credentials where one is.
func (t *target) looks(p placement) bool {
	return p.header == "" || p.kind == token && p.header == t.tokenHeader() || p.kind == key && slices.Contains(keyNames, p.header)
}

// judge says what is wrong with a request that arrived at the upstream of a
// target, or "". placed are the credentials that the client sent in a place
// where the gateway may look for them, good or not.
func judge(t *target, placed []placement, h http.Header) string {
	seen := identity{}
	for name, values := range h {
		plain := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		switch {
		case strings.HasPrefix(plain, "x-meshgate-"):
			return fmt.Sprintf("%s arrived", name)
		case !slices.Contains(identityNames, plain):
			if slices.ContainsFunc(identityFamilies, func(f string) bool { return strings.HasPrefix(plain, f) }) {
				return fmt.Sprintf("%s arrived", name)
			}
		case strings.Contains(name, "_") || len(values) != 1:
			return fmt.Sprintf("%s arrived as %q", name, values)
		default:
			seen[plain] = values[0]
		}
	}
	good := [2][]*secret{}
	for _, s := range placed {
		if s.opens(t) && t.looks(s) {
			good[s.kind] = append(good[s.kind], s.secret)
		}
	}
	allowed := t.opens(good[token], good[key])
	for _, i := range allowed {
		if maps.Equal(i, seen) {
			return ""
		}
	}
	return fmt.Sprintf("it arrived as %v; allowed are %v", seen, allowed)
}

// The oracle is as good as its judgement.
func TestOracle(t *testing.T) {
	all := map[string]*target{}
	for _, x := range slices.Concat(tokenTargets, keyTargets) {
		all[x.name] = x
	}
	aliceToken := &secret{kind: token, live: true, at: all["guarded"], tells: identity{"x-consumer-id": "1", "x-authenticated-scope": "email"}}
	bobsToken := &secret{kind: token, live: true, at: all["both"], tells: identity{"x-consumer-id": "2", "x-authenticated-scope": "phone"}}
	unbound := &secret{kind: token, live: true, tells: identity{"x-consumer-id": "1"}}
	renamed := &secret{kind: token, live: true, at: all["renamed"], tells: identity{"x-consumer-id": "1"}}
	bobsKey := &secret{kind: key, live: true, tells: identity{"x-consumer-id": "2", "x-credential-identifier": "k"}}
	dead := &secret{kind: token, at: all["guarded"], tells: identity{"x-consumer-id": "1"}}
	header := func(pairs ...string) http.Header {
		h := http.Header{"X-Other": {"a", "b"}}
		for i := 0; i < len(pairs); i += 2 {
			h.Add(pairs[i], pairs[i+1])
		}
		return h
	}
	asAlice := header("X-Consumer-Id", "1", "X-Authenticated-Scope", "email")
	for _, c := range []struct {
		at     string
		placed []*secret
		header http.Header
		good   bool
	}{
		{"open", nil, header(), true},
		{"open", nil, header("X-Consumer-Id", "1"), false},
		{"open", nil, http.Header{"X_consumer_id": {"1"}}, false},
		{"open", nil, header("X-Meshgate-Oauth", "1"), false},
		{"open", nil, http.Header{"X_meshgate-Oauth": {"1"}}, false},
		{"open", nil, header("X-Consumer-Groups", "1"), false},
		{"open", nil, http.Header{"X_credential-Username": {"1"}}, false},
		{"guarded", nil, header(), false},
		{"guarded", []*secret{aliceToken}, asAlice, true},
		{"guarded", []*secret{aliceToken}, header("X-Consumer-Id", "1"), false},
		{"guarded", []*secret{aliceToken}, header("X-Consumer-Id", "1", "X-Consumer-Id", "1", "X-Authenticated-Scope", "email"), false},
		{"guarded", []*secret{dead}, header("X-Consumer-Id", "1"), false},
		{"guarded", []*secret{unbound}, header("X-Consumer-Id", "1"), false},
		{"global", []*secret{unbound}, header("X-Consumer-Id", "1"), true},
		{"second", []*secret{aliceToken}, asAlice, false},
		{"renamed", []*secret{renamed}, header("X-Consumer-Id", "1"), false},
		{"keys", []*secret{bobsKey}, header("X-Consumer-Id", "2", "X-Credential-Identifier", "k"), true},
		{"guarded", []*secret{bobsKey}, header("X-Consumer-Id", "2", "X-Credential-Identifier", "k"), false},
		{"both", []*secret{bobsKey}, header("X-Consumer-Id", "2", "X-Credential-Identifier", "k"), false},
		{"both", []*secret{bobsToken}, header("X-Consumer-Id", "2", "X-Authenticated-Scope", "phone"), false},
		{"both", []*secret{bobsKey, bobsToken}, header("X-Consumer-Id", "2", "X-Credential-Identifier", "k", "X-Authenticated-Scope", "phone"), true},
		{"either", []*secret{bobsKey}, header("X-Consumer-Id", "2", "X-Credential-Identifier", "k"), true},
		{"either", nil, header("X-Anonymous-Consumer", "true"), false},
		{"closed", []*secret{bobsKey, aliceToken, unbound}, header(), false},
	} {
		placed := []placement{}
		for _, s := range c.placed {
			placed = append(placed, placement{s, map[kind]string{token: "authorization", key: "apikey"}[s.kind]})
		}
		if got := judge(all[c.at], placed, c.header); (got == "") != c.good {
			t.Errorf("%s with %d credentials and %v: %q", c.at, len(c.placed), c.header, got)
		}
	}
}

package oauth

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

var encoded = regexp.MustCompile(`^(?:[A-Za-z0-9_&=]|%[0-9a-f]{2})*$`)

// TestRedirectKeepsParameters: a redirect URI holds all parameters that were put into it,
// sorted, and nothing else.
func TestRedirectKeepsParameters(t *testing.T) {
	name := rapid.StringMatching(`[a-zA-Z0-9_.~ é&=%+/-]{1,8}`)
	rapid.Check(t, func(t *rapid.T) {
		own := rapid.MapOf(name, rapid.String()).Draw(t, "own")
		answer := rapid.MapOf(name, rapid.String()).Draw(t, "answer")
		query, want, values := url.Values{}, url.Values{}, map[string]any{}
		for k, v := range own {
			query.Set(k, v)
			want.Set(k, v)
		}
		for k, v := range answer {
			want.Set(k, v)
			values[k] = v
		}
		target := "https://a.test/cb?" + query.Encode()
		got := redirectURI(target, values)
		_, gotQuery, _ := strings.Cut(got, "?")
		parsed, err := url.ParseQuery(gotQuery)
		if err != nil || !encoded.MatchString(gotQuery) {
			t.Fatalf("%q: %v", gotQuery, err)
		}
		if diff := cmp.Diff(want, parsed); diff != "" {
			t.Fatalf("%s\n%s", gotQuery, diff)
		}
		var names []string
		for pair := range strings.SplitSeq(gotQuery, "&") {
			key, _, _ := strings.Cut(pair, "=")
			plain, err := url.QueryUnescape(key)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, plain)
		}
		if all := slices.Sorted(maps.Keys(want)); len(all) > 0 && !slices.Equal(all, names) {
			t.Fatalf("names %q, want %q", names, all)
		}
		inFragment := redirectFragment(target, values)
		if before, _, _ := strings.Cut(inFragment, "#"); before != target {
			t.Fatalf("%q was changed to %q", target, before)
		}
	})
}

func TestEncodeParams(t *testing.T) {
	for want, values := range map[string]map[string]any{
		"":                                  {},
		"a":                                 {"a": ""},
		"a=true&b=false":                    {"a": true, "b": false},
		"a=5":                               {"a": int64(5)},
		"s%5b1%5d=a&s%5b2%5d&s%5b3%5d=true": {"s": []any{"a", "", true}},
		"s%5ba%5d=1&s%5bb%5d%5b1%5d=2":      {"s": map[string]any{"b": []any{"2"}, "a": "1"}},
		"a%2db=%2e%2c%20%7e%c3%a9":          {"a-b": "., ~é"},
	} {
		if got := encodeParams(values); got != want {
			t.Errorf("%v: %s, want %s", values, got, want)
		}
	}
}

// FuzzRedirect: no parameter of the answer can break out of its place.
func FuzzRedirect(f *testing.F) {
	f.Add("https://a/cb", "s")
	f.Add("https://a/cb?x&y=%zz&=&&", "a&b=c#d")
	f.Fuzz(func(t *testing.T, target, state string) {
		got := redirectURI(target, map[string]any{"state": state, "code": "c"})
		base, query, _ := strings.Cut(got, "?")
		before, _, _ := strings.Cut(target, "?")
		if base != before || !encoded.MatchString(query) {
			t.Fatalf("%q", got)
		}
		parsed, err := url.ParseQuery(query)
		if err != nil || parsed.Get("code") != "c" || parsed.Get("state") != state {
			t.Fatalf("%q: %v", got, err)
		}
	})
}

// TestRegisteredRedirects: in the strict profile the port of a loopback address is free;
// everything else is compared character by character.
func TestRegisteredRedirects(t *testing.T) {
	uris := []string{"http://127.0.0.1/cb", "http://[::1]:8000/cb?a=b", "https://app.example/cb", "http://localhost/cb"}
	for uri, want := range map[string]bool{
		"http://127.0.0.1/cb": true, "http://127.0.0.1:51004/cb": true, "http://[::1]/cb?a=b": true, "http://[::1]:1/cb?a=b": true,
		"https://app.example/cb": true, "https://app.example:8443/cb": false, "http://localhost:1/cb": false,
		"https://127.0.0.1:51004/cb": false, "http://127.0.0.1:51004/cb/": false, "http://127.0.0.1:51004/cb?x": false,
		"http://127.0.0.2:51004/cb": false, "http://127.0.0.1:70000/cb": false, "http://127.0.0.1:51004@evil.example/cb": false,
		"http://u@127.0.0.1:51004/cb": false, "http://127.0.0.1:51004.evil.example/cb": false, "http://127.0.0.1:1/../cb": false,
		"http://[::1]:1/cb": false, "http://127.0.0.1:51004/cb#x": false,
	} {
		r := &Request{Application: &model.Resource{Spec: &gateway.Application{RedirectURIs: uris}}, Config: &gateway.OAuth2Config{Profile: gateway.ProfileOAuth21}}
		if got := r.registered(uri); got != want {
			t.Errorf("%s: %v", uri, got)
		}
		r.Config.Profile = gateway.ProfileOAuth20
		if got := r.registered(uri); got != slices.Contains(uris, uri) {
			t.Errorf("%s in the default profile: %v", uri, got)
		}
	}
}

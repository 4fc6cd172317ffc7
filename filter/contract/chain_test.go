package contract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var wholeChain = Chain{Route: "r", Service: "s", Plugins: []Plugin{{ID: "p", OAuth2: &OAuth2{
	Header: "authorization", Realm: "the realm", Global: true, HideCredentials: true,
	Anonymous: &Anonymous{Configured: "nobody", Consumer: &Consumer{ID: "c", Username: "nobody", CustomID: "n-1"}},
}}}}

func TestChainRoundTrip(t *testing.T) {
	b, err := wholeChain.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseChain(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&wholeChain, got); d != "" {
		t.Errorf("(-sent +parsed):\n%s", d)
	}
}

func TestParseChainRefuses(t *testing.T) {
	const good = `{"route":"r","plugins":[{"id":"p","oauth2":{"header":"authorization"}}]}`
	if _, err := ParseChain([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]string{
		"nothing":             ``,
		"null":                `null`,
		"no object":           `[]`,
		"cut short":           good[:len(good)-1],
		"trailing value":      good + good,
		"trailing text":       good + `x`,
		"no plugins":          `{"route":"r"}`,
		"empty plugins":       `{"route":"r","plugins":[]}`,
		"plugin without kind": `{"route":"r","plugins":[{"id":"p"}]}`,
		"unknown kind":        `{"route":"r","plugins":[{"id":"p","other":{}}]}`,
		"no id":               `{"route":"r","plugins":[{"oauth2":{"header":"authorization"}}]}`,
		"no header":           `{"route":"r","plugins":[{"id":"p","oauth2":{}}]}`,
		"upper-case header":   `{"route":"r","plugins":[{"id":"p","oauth2":{"header":"Authorization"}}]}`,
		"unknown setting":     strings.Replace(good, `"header"`, `"glboal":true,"header"`, 1),
		"wrong type":          strings.Replace(good, `"header"`, `"global":"true","header"`, 1),
		"second is bad":       strings.Replace(good, `}}]`, `}},{"id":"q"}]`, 1),
		"too long":            good + strings.Repeat(" ", MaxChain),
	} {
		if c, err := ParseChain([]byte(in)); err == nil {
			t.Errorf("%s: parsed as %+v", name, c)
		}
	}
}

func FuzzParseChain(f *testing.F) {
	b, err := wholeChain.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"plugins":[{"id":"\ud800","oauth2":{"header":"x"}}]}`))
	f.Add([]byte(`{"PLUGINS":[{"id":"p","oauth2":{"header":"x","anonymous":null}}]} `))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := ParseChain(in)
		if err != nil {
			return
		}
		for i := range c.Plugins {
			if o := c.Plugins[i].OAuth2; c.Plugins[i].ID == "" || o == nil || o.Header == "" {
				t.Errorf("plugin %d is incomplete: %+v", i, c.Plugins[i])
			}
		}
		out, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseChain(out)
		if len(out) > MaxChain { // escapes may make it longer
			return
		}
		if err != nil {
			t.Fatalf("own encoding %s: %v", out, err)
		}
		if d := cmp.Diff(c, again); d != "" {
			t.Errorf("(-first +second):\n%s", d)
		}
	})
}

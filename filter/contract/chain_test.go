package contract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
		"reserved header":     `{"route":"r","plugins":[{"id":"p","oauth2":{"header":"x-consumer-id"}}]}`,
		"reserved name":       `{"plugins":[{"id":"p","key_auth":{"names":["x_credential-key"],"in_query":true}}]}`,
		"unknown setting":     strings.Replace(good, `"header"`, `"glboal":true,"header"`, 1),
		"wrong type":          strings.Replace(good, `"header"`, `"global":"true","header"`, 1),
		"second is bad":       strings.Replace(good, `}}]`, `}},{"id":"q"}]`, 1),
		"unknown protocol":    `{"protocol":"http","plugins":[{"id":"p","oauth2":{"header":"a"}}]}`,
		"two kinds":           strings.Replace(good, `}}]`, `},"key_auth":{"names":["k"],"in_query":true}}]`, 1),
		"no names":            `{"plugins":[{"id":"p","key_auth":{"names":[],"in_query":true}}]}`,
		"too many names":      `{"plugins":[{"id":"p","key_auth":{"names":["1","2","3","4","5","6","7","8","9"],"in_query":true}}]}`,
		"upper-case name":     `{"plugins":[{"id":"p","key_auth":{"names":["K"],"in_query":true}}]}`,
		"key nowhere":         `{"plugins":[{"id":"p","key_auth":{"names":["k"]}}]}`,
		"answers nobody":      `{"plugins":[{"id":"p","termination":{}}]}`,
		"status":              `{"plugins":[{"id":"p","termination":{"default":{"status":101}}}]}`,
		"upper-case trigger":  `{"plugins":[{"id":"p","termination":{"default":{"status":503,"trigger":"X"}}}]}`,
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
	f.Add([]byte(`{"protocol":"ws","plugins":[{"id":"k","key_auth":{"names":["k"],"in_body":true}},{"id":"t","termination":{"default":{"status":503,"trigger":"x"}}}]}`))
	f.Add([]byte(`{"plugins":[{"id":"\ud800","oauth2":{"header":"x"}}]}`))
	f.Add([]byte(`{"PLUGINS":[{"id":"p","oauth2":{"header":"x","anonymous":null}}]} `))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := ParseChain(in)
		if err != nil {
			return
		}
		for i := range c.Plugins {
			p := &c.Plugins[i]
			whole := p.OAuth2 != nil && p.OAuth2.Header != "" || p.KeyAuth != nil && len(p.KeyAuth.Names) > 0 ||
				p.Termination != nil && (p.Termination.Default != nil || len(p.Termination.Consumers) > 0)
			if p.ID == "" || !whole {
				t.Errorf("plugin %d is incomplete: %+v", i, p)
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
		if d := cmp.Diff(c, again, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("(-first +second):\n%s", d)
		}
	})
}

func TestTriggers(t *testing.T) {
	c := Chain{Plugins: []Plugin{{OAuth2: &OAuth2{}}, {Termination: &Termination{Default: &Answered{Trigger: "b"},
		Consumers: map[string]Answered{"1": {Trigger: "a"}, "2": {}, "3": {Trigger: "b"}}}}}}
	if d := cmp.Diff([]string{"a", "b"}, c.Triggers()); d != "" {
		t.Error(d)
	}
}

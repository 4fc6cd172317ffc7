package chain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/filter/contract"
)

// ending returns an instance of request-termination that answers with its own id.
func ending(id, route, service, consumer string) *view.Plugin {
	return &view.Plugin{Entry: view.Entry[gateway.Plugin]{ID: id, Spec: &gateway.Plugin{
		Name: gateway.PluginRequestTermination, Route: route, Service: service, Consumer: consumer, Enabled: true,
		Config: fmt.Appendf(nil, `{"status_code":503,"body":%q,"echo":false}`, id),
	}}}
}

func disabled(p *view.Plugin) *view.Plugin {
	p.Spec.Enabled = false
	return p
}

// TestTerminationPrecedence removes one instance after the other, in order of precedence. Each
// time the next one answers the consumer.
func TestTerminationPrecedence(t *testing.T) {
	order := []*view.Plugin{
		ending("crs", "r", "s", "c"), ending("cr", "r", "", "c"), ending("cs", "", "s", "c"), ending("rs", "r", "s", ""),
		ending("c", "", "", "c"), ending("r", "r", "", ""), ending("s", "", "s", ""), ending("g", "", "", ""),
	}
	for i := range order {
		for _, off := range []bool{false, true} {
			var a Attached
			for j := len(order) - 1; j >= 0; j-- {
				p := order[j]
				if j < i {
					if !off {
						continue
					}
					// Disabled instances hide nothing. Those without a consumer are never
					// passed in.
					p = disabled(ending(p.ID, p.Spec.Route, p.Spec.Service, p.Spec.Consumer))
				}
				if p.Spec.Consumer == "" {
					if p.Spec.Enabled {
						a.Plugin = p
					}
					continue
				}
				at := map[string]int{"crs": atRouteAndService, "cr": atRoute, "cs": atService, "c": atGlobal}[p.ID]
				other := ending(p.ID+"-other", p.Spec.Route, p.Spec.Service, "d")
				a.Bound[at] = &view.Bound{Plugins: []*view.Plugin{p, other}}
			}
			out, runs, err := terminationOf(a)
			if err != nil || !runs {
				t.Fatalf("from %s: %v, %v", order[i].ID, runs, err)
			}
			got := "nobody"
			if out.Termination.Default != nil {
				got = out.Termination.Default.Body
			}
			if own, ok := out.Termination.Consumers["c"]; ok {
				got = own.Body
			}
			if got != order[i].ID {
				t.Errorf("from %s on (disabled ones there: %v), %s answers", order[i].ID, off, got)
			}
		}
	}
}

// TestEncodeTermination: the filter reads exactly what was encoded.
func TestEncodeTermination(t *testing.T) {
	configured := func(config string) Attached {
		return Attached{Plugin: plugin(gateway.PluginRequestTermination, config)}
	}
	only := func(p ...*view.Plugin) Attached {
		return Attached{Bound: [numTargets]*view.Bound{atGlobal: {Plugins: p}}}
	}
	for _, c := range []struct {
		name     string
		attached Attached
		want     *contract.Termination
		id       string
	}{
		{"default text", configured(`{"status_code":503,"echo":false}`),
			&contract.Termination{Default: &contract.Answered{Status: 503, Body: `{"message":"Service unavailable"}`}}, "p"},
		{"other text", configured(`{"status_code":414}`),
			&contract.Termination{Default: &contract.Answered{Status: 414, Body: `{"message":"Request URI too long"}`}}, "p"},
		{"no text", configured(`{"status_code":299}`),
			&contract.Termination{Default: &contract.Answered{Status: 299, Body: `{"message":"Status 299"}`}}, "p"},
		{"message", configured(`{"status_code":403,"message":"<no> \"way\"","trigger":"X-Stop"}`),
			&contract.Termination{Default: &contract.Answered{Status: 403, Body: `{"message":"<no> \"way\""}`, Trigger: "x-stop"}}, "p"},
		{"body", configured(`{"status_code":200,"body":"<p>","content_type":"text/html"}`),
			&contract.Termination{Default: &contract.Answered{Status: 200, Body: "<p>", ContentType: "text/html"}}, "p"},
		{"consumers only", only(ending("a", "", "", "c"), disabled(ending("b", "", "", "d"))),
			&contract.Termination{Consumers: map[string]contract.Answered{"c": {Status: 503, Body: "a"}}}, "a"},
	} {
		body, err := Encode(contract.Chain{Route: "r"}, [MaxPlugins]Attached{c.attached})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got, err := contract.ParseChain(body)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		want := &contract.Chain{Route: "r", Plugins: []contract.Plugin{{ID: c.id, Termination: c.want}}}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
	if body, err := Encode(contract.Chain{Route: "r"}, [MaxPlugins]Attached{only(disabled(ending("a", "", "", "c")))}); body != nil || err != nil {
		t.Errorf("disabled only: encoded %s, %v", body, err)
	}
}

// TestEncodeTerminationRefuses: encoding fails if the filter could not read the configuration,
// so that the route refuses.
func TestEncodeTerminationRefuses(t *testing.T) {
	var many []*view.Plugin
	for i := range 100 {
		p := ending(fmt.Sprint("p", i), "", "", fmt.Sprint("c", i))
		p.Spec.Config = fmt.Appendf(nil, `{"status_code":503,"body":%q}`, strings.Repeat("x", 4000))
		many = append(many, p)
	}
	bad := ending("bad", "", "", "c")
	bad.Spec.Config = []byte(`{"status_code":503,"unheard_of":1}`)
	for name, a := range map[string]Attached{
		"too large":     {Bound: [numTargets]*view.Bound{atRoute: {Plugins: many}}},
		"unknown field": {Bound: [numTargets]*view.Bound{atRoute: {Plugins: []*view.Plugin{bad}}}},
		"echo":          {Plugin: plugin(gateway.PluginRequestTermination, `{"status_code":503,"echo":true}`)},
		"no status":     {Plugin: plugin(gateway.PluginRequestTermination, `{}`)},
	} {
		if body, err := Encode(contract.Chain{Route: "r"}, [MaxPlugins]Attached{a}); err == nil {
			t.Errorf("%s: encoded %.100s", name, body)
		}
	}
}

// TestEncodeKeyAuth: names are compared without case.
func TestEncodeKeyAuth(t *testing.T) {
	a := Attached{
		Plugin: plugin(gateway.PluginKeyAuth, `{"key_names":["apiKey","X-Key"],"key_in_header":true,"key_in_query":true,"key_in_body":false,
			"hide_credentials":true,"run_on_preflight":false,"anonymous":"bob","realm":"r"}`),
		Anonymous: &view.Consumer{ID: "c", Spec: &gateway.Consumer{Username: "bob"}},
	}
	body, err := Encode(contract.Chain{Route: "r"}, [MaxPlugins]Attached{a})
	if err != nil {
		t.Fatal(err)
	}
	got, err := contract.ParseChain(body)
	if err != nil {
		t.Fatal(err)
	}
	want := &contract.Chain{Route: "r", Plugins: []contract.Plugin{{ID: "p", KeyAuth: &contract.KeyAuth{
		Names: []string{"apikey", "x-key"}, InHeader: true, InQuery: true, HideCredentials: true, SkipPreflight: true, Realm: "r",
		Anonymous: &contract.Anonymous{Configured: "bob", Consumer: &contract.Consumer{ID: "c", Username: "bob"}},
	}}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if body, err := Encode(contract.Chain{Route: "r"}, [MaxPlugins]Attached{{Plugin: plugin(gateway.PluginKeyAuth, `{"key_names":[]}`)}}); err == nil {
		t.Errorf("encoded %s", body)
	}
}

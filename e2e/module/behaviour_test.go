package module

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/filtertest"
)

// The behaviour that all adapters share, through a real Envoy: forged headers
// removed by the listener, by the filter, and with an authority that is away. With a control
// plane each request comes often enough to be answered from memory at last, where that is
// allowed: the first is looked up, the second is proven.
func TestBehaviourTable(t *testing.T) {
	for _, run := range []struct {
		name                 string
		down, strips, linked bool
		env                  []string
		times                int
	}{
		{name: "listener strips", strips: true, times: 1},
		{name: "filter strips", times: 1},
		{name: "authority away", down: true, strips: true, times: 1},
		{name: "verdicts remembered", linked: true, times: 4},
		{name: "verdicts not remembered", linked: true, env: forgetful, times: 4},
	} {
		t.Run(run.name, func(t *testing.T) {
			var cases []filtertest.Case
			for _, c := range filtertest.Cases() {
				if c.Down == run.down {
					cases = append(cases, c)
				}
			}
			w := newWorld(t, options{oauth: echoAs("oauth"), linked: run.linked, env: run.env, edit: func(config object) {
				addHosts(config, cases, func(route object, chain string) { route["typed_per_filter_config"] = chained(chain) })
				manager(config)["upgrade_configs"] = []any{object{"upgrade_type": "websocket"}}
				if run.down {
					at(filterConfig(config), "settings", "redis").(object)["url"] = fmt.Sprintf("redis://127.0.0.1:%d", freePort(t))
				}
				if run.strips {
					listenerStrips(config)
				}
			}})
			tr := &http.Transport{Protocols: new(http.Protocols)}
			tr.Protocols.SetUnencryptedHTTP2(true)
			http2 := newClient(t, tr)
			// What one case does not know the filter remembers as unknown for a while.
			for i := range cases {
				w.putAll(t, &cases[i])
			}
			repeated := 0
			for i := range cases {
				before := w.repeats(t)
				runCase(t, w, http2, &cases[i], run.times)
				if w.repeats(t) > before {
					repeated++
				}
			}
			if remembers := run.linked && run.env == nil; remembers != (repeated > 0) {
				t.Errorf("memory has answered %d cases", repeated)
			}
			t.Logf("memory has answered %d of %d cases", repeated, len(cases))
		})
	}
}

// listenerStrips has the listener remove what the filter would, and the filter rely
// on it. contract.ReservedHeaders is the list.
func listenerStrips(config object) {
	mutation := at(manager(config), "early_header_mutation_extensions", 0, "typed_config").(object)
	for _, r := range contract.ReservedHeaders {
		name := strings.ReplaceAll(r.Name, "-", "[-_]")
		if r.Family {
			name += ".*"
		}
		if r.Twins { // an underscore in one of the places where there may be one
			name = ""
			for i, c := range r.Name {
				if c == '-' {
					rest := strings.ReplaceAll(r.Name[i+1:], "-", "[-_]")
					name += strings.ReplaceAll(r.Name[:i], "-", "[-_]") + "_" + rest + ".*|"
				}
			}
			name += strings.ReplaceAll(r.Name, "-", "[-_]") + ".*_.*"
		}
		mutation["mutations"] = append(mutation["mutations"].([]any), object{
			"remove_on_match": object{"key_matcher": object{"safe_regex": object{"regex": name}}},
		})
	}
	filterConfig(config)["listener_strips"] = true
}

// runCase sends a request that many times.
func runCase(t *testing.T, w *world, http2 *http.Client, c *filtertest.Case, times int) {
	t.Run(c.Name, func(t *testing.T) {
		w.putAll(t, c)
		client := *w
		if c.Request.HTTP2 {
			client.client = http2
		}
		for n := range times {
			for _, difference := range c.Check(observed(t, client.do(t, caseRequest(t, w, c)))) {
				t.Errorf("request %d: %s", n+1, difference)
			}
		}
	})
}

// putAll makes the tokens of a case known.
func (w *world) putAll(t *testing.T, c *filtertest.Case) {
	t.Helper()
	for i := range c.Tokens {
		w.put(t, c.Tokens[i].Value, &c.Tokens[i].Record)
	}
}

// observed says where a request has ended.
func observed(t *testing.T, a answer) *filtertest.Observed {
	t.Helper()
	o := &filtertest.Observed{Outcome: filtertest.Refused, Status: a.status, Header: a.header, Body: a.body}
	switch a.header.Get("X-Upstream") {
	case "echo":
		o.Outcome = filtertest.Proxied
	case "oauth":
		o.Outcome = filtertest.Issued
	}
	if o.Outcome != filtertest.Refused {
		seen := a.seen(t)
		o.Upstream, o.Path, o.Sent = seen.Headers, seen.URI, seen.Text
	}
	return o
}

// caseRequest sends names and path byte for byte.
func caseRequest(t *testing.T, w *world, c *filtertest.Case) *http.Request {
	t.Helper()
	method := c.Request.Method
	if method == "" {
		method = http.MethodGet
	}
	var body io.Reader
	if c.Request.Body != "" {
		body = strings.NewReader(c.Request.Body)
	}
	if c.Request.Chunked || c.Request.Trailers {
		body = io.MultiReader(body) // hides the length
	}
	r := w.request(t.Context(), t, method, "/", body)
	if c.Request.Trailers {
		r.Trailer = http.Header{"X-Trailer": {"behind"}}
	}
	target, err := url.Parse(w.base)
	if err != nil {
		t.Fatal(err)
	}
	r.URL = &url.URL{Scheme: target.Scheme, Host: target.Host, Opaque: c.Request.Path}
	r.Host = c.Name
	for _, h := range c.Request.Headers {
		r.Header[h[0]] = append(r.Header[h[0]], h[1])
	}
	return r
}

// addHosts replaces the virtual hosts by one for each case, behind the route to
// the OAuth server; carry gives a route its chain.
func addHosts(config object, cases []filtertest.Case, carry func(route object, chain string)) {
	oauth := virtualHost(config)["routes"].([]any)[0]
	var hosts []any
	for i := range cases {
		route := object{"match": object{"prefix": "/"}, "route": object{"cluster": "upstream"}}
		carry(route, cases[i].Chain)
		hosts = append(hosts, object{"name": cases[i].Name, "domains": []any{cases[i].Name}, "routes": []any{oauth, route}})
	}
	manager(config)["route_config"].(object)["virtual_hosts"] = hosts
}

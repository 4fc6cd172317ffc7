package module

import (
	"net/http"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// What routes say in the tables below, by the ends of their paths.
const (
	chainOfTables = `{"route":"t","service":"` + serviceID + `","plugins":[{"id":"` + pluginID + `","oauth2":{"header":"authorization"}}]}`
	silent        = "silent"
)

// marks returns what each route says to the filter.
func marks() map[string]string {
	name := func(chain string) string {
		return contract.Carried{Content: contract.ChainContent([]byte(chain))}.String()
	}
	return map[string]string{"named": name(chainOfTables), "unknown": name("{}"), "open": contract.NoChain, silent: ""}
}

// tableOf replaces the routes by one for each mark that goes to the upstream and one that
// answers itself, in a table that carries a text; nothing if it is empty.
func tableOf(config object, carries string) {
	var routes []any
	for name, mark := range marks() {
		said := object{"route": name}
		if mark != "" {
			said[contract.MetaFilter] = mark
		}
		metadata := object{"filter_metadata": object{contract.MetadataNamespace: said}}
		routes = append(routes,
			object{"match": object{"path": "/" + name}, "metadata": metadata, "route": object{"cluster": "upstream"}},
			object{"match": object{"path": "/direct/" + name}, "metadata": metadata, "direct_response": object{"status": 200}})
	}
	routes = append(routes, object{"match": object{"path": "/" + silent + "/bare"}, "route": object{"cluster": "upstream"}})
	virtualHost(config)["routes"] = routes
	if carries != "" {
		manager(config)["route_config"].(object)["typed_per_filter_config"] = chained(carries)
	}
	manager(config)["local_reply_config"] = object{"body_format": object{"text_format_source": object{"inline_string": "%RESPONSE_CODE_DETAILS%"}}}
}

// Where every route says what it has, one that says nothing is refused, whatever it would do.
// In a table that was written by hand it is open. One that names a chain which nothing carries
// is refused in either, and without a table. What no route matches is Envoy's to answer.
func TestRoutesSayWhatTheyHave(t *testing.T) {
	const missing, unmarked, unknown, direct, nowhere = "meshgate_token_missing", "meshgate_route_unmarked", "meshgate_filter_failed", "direct_response", "route_not_found"
	type path = string
	all := map[path]string{
		"/named": missing, "/direct/named": missing, "/unknown": unknown, "/direct/unknown": unknown,
		"/open": "", "/direct/open": direct, "/silent": "", "/silent/bare": "", "/direct/silent": direct, "/nowhere": nowhere,
	}
	for name, run := range map[string]struct {
		carries string
		differs map[path]string
	}{
		"marked":         {contract.MarkedChains + chainOfTables, map[path]string{"/silent": unmarked, "/silent/bare": unmarked, "/direct/silent": unmarked}},
		"plain":          {contract.PlainChains + chainOfTables, nil},
		"without chains": {"", map[path]string{"/named": unknown, "/direct/named": unknown}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, options{edit: func(config object) { tableOf(config, run.carries) }})
			for path, want := range all {
				if other, is := run.differs[path]; is {
					want = other
				}
				a := w.get(t, path, "X-Consumer-Id", "forged")
				switch {
				case want == "" && a.seen(t).Headers.Get("X-Consumer-Id") != "":
					t.Errorf("%s: a client says who it is", path)
				case want != "" && a.body != want:
					t.Errorf("%s: %d %s, want %s", path, a.status, a.body, want)
				case (want == unmarked || want == unknown) && a.status != http.StatusServiceUnavailable:
					t.Errorf("%s: status %d", path, a.status)
				}
			}
			passes := w.get(t, "/named", "Authorization", bearer).status == http.StatusOK
			if passes != (run.carries != "") {
				t.Errorf("with a token: %t", passes)
			}
		})
	}
}

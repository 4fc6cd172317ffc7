package declare

import (
	"strings"
	"testing"
)

// TestDefaultsOfRecords: defaults are completed by what an entity says, member by member in records. Lists
// and references are one value, and a given null is one, too.
// Plugins of any name share the defaults of what all plugins have.
func TestDefaultsOfRecords(t *testing.T) {
	r := newRig(t, "")
	t.Setenv("MESHGATE_FILE_TEXT", "/from-outside")
	text := `_info:
  defaults:
    upstream:
      healthchecks: {threshold: 20, active: {http_path: '${{ env "MESHGATE_FILE_TEXT" }}', healthy: {interval: 5, http_statuses: [200, 204]}}}
    route: {methods: [GET], service: {name: one}}
    plugin: {enabled: false, protocols: [https]}
services:
- {name: one, host: h}
- {name: two, host: h}
routes:
- {name: a, paths: [/a]}
- {name: b, paths: [/b], methods: [POST], service: {name: two}}
- {name: c, paths: [/c], service: null}
upstreams:
- {name: whole.test}
- {name: part.test, healthchecks: {active: {healthy: {successes: 2, http_statuses: [201]}}}}
- {name: other.test, healthchecks: {threshold: 30}}
- {name: own.test, healthchecks: {active: {http_path: /own}}}
plugins:
- {name: request-termination, route: a, config: {status_code: 418, message: own}}
- {name: key-auth, route: b, enabled: true, config: {key_names: [x-key]}}
`
	f := file(t, text)
	asked := r.must(t, "diff", f, "--json-output")
	if strings.Contains(asked, "from-outside") || !strings.Contains(asked, `"http_path": "/own"`) {
		t.Errorf("a value from the environment is shown, or one that is not is masked: %s", asked)
	}
	r.must(t, "sync", f)
	if out := r.must(t, "sync", f); !strings.HasPrefix(out, "Summary:\n  Created: 0\n  Updated: 0\n  Deleted: 0\n") {
		t.Errorf("again: %s", out)
	}
	for path, wants := range map[string][]string{
		"/upstreams/whole.test": {`"threshold":20`, `"http_path":"/from-outside"`, `"http_statuses":[200,204]`, `"interval":5`},
		"/upstreams/part.test":  {`"threshold":20`, `"http_path":"/from-outside"`, `"http_statuses":[201]`, `"interval":5`, `"successes":2`},
		"/upstreams/other.test": {`"threshold":30`, `"http_path":"/from-outside"`, `"interval":5`},
		"/routes/a":             {`"methods":["GET"]`},
		"/routes/b":             {`"methods":["POST"]`},
		"/routes/a/service":     {`"name":"one"`},
		"/routes/b/service":     {`"name":"two"`},
		"/routes/c":             {`"service":null`},
		"/upstreams/own.test":   {`"threshold":20`, `"http_path":"/own"`, `"interval":5`},
		"/routes/a/plugins":     {`"status_code":418`, `"message":"own"`, `"enabled":false`, `"protocols":["https"]`},
		"/routes/b/plugins":     {`"key_names":["x-key"]`, `"enabled":true`, `"protocols":["https"]`},
	} {
		got := r.api(t, "GET", path, "", 200)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %s: %s", path, want, got)
			}
		}
	}
	t.Setenv("MESHGATE_FILE_TEXT", "/another")
	if asked := r.must(t, "diff", f, "--json-output"); strings.Contains(asked, "from-outside") || !strings.Contains(asked, `"updating": 3`) {
		t.Errorf("what was there before the value from the environment is shown: %s", asked)
	}
}

package declare

import (
	"strings"
	"testing"
)

// TestDefaultsOfRecords: defaults are completed by what an entity says, member by member in records. Lists
// and references are one value, and a given null is one, too.
func TestDefaultsOfRecords(t *testing.T) {
	r := newRig(t, "")
	t.Setenv("MESHGATE_FILE_TEXT", "from-outside")
	text := `_info:
  defaults:
    upstream:
      healthchecks: {threshold: 20, active: {http_path: /up, healthy: {interval: 5, http_statuses: [200, 204]}}}
    route: {methods: [GET], service: {name: one}}
    plugin:
      config: {message: '${{ env "MESHGATE_FILE_TEXT" }}', trigger: x-stop}
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
plugins:
- {name: request-termination, route: a, config: {status_code: 418, message: own}}
- {name: request-termination, route: b, config: {status_code: 419}}
`
	f := file(t, text)
	asked := r.must(t, "diff", f, "--json-output")
	if strings.Contains(asked, "from-outside") || !strings.Contains(asked, `"message": "own"`) {
		t.Errorf("a value from the environment is shown, or one that is not is masked: %s", asked)
	}
	r.must(t, "sync", f)
	if out := r.must(t, "sync", f); !strings.HasPrefix(out, "Summary:\n  Created: 0\n  Updated: 0\n  Deleted: 0\n") {
		t.Errorf("again: %s", out)
	}
	for path, wants := range map[string][]string{
		"/upstreams/whole.test": {`"threshold":20`, `"http_path":"/up"`, `"http_statuses":[200,204]`, `"interval":5`},
		"/upstreams/part.test":  {`"threshold":20`, `"http_path":"/up"`, `"http_statuses":[201]`, `"interval":5`, `"successes":2`},
		"/upstreams/other.test": {`"threshold":30`, `"http_path":"/up"`, `"interval":5`},
		"/routes/a":             {`"methods":["GET"]`},
		"/routes/b":             {`"methods":["POST"]`},
		"/routes/a/service":     {`"name":"one"`},
		"/routes/b/service":     {`"name":"two"`},
		"/routes/c":             {`"service":null`},
		"/routes/a/plugins":     {`"status_code":418`, `"message":"own"`, `"trigger":"x-stop"`},
		"/routes/b/plugins":     {`"status_code":419`, `"message":"from-outside"`, `"trigger":"x-stop"`},
	} {
		got := r.api(t, "GET", path, "", 200)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %s: %s", path, want, got)
			}
		}
	}
	t.Setenv("MESHGATE_FILE_TEXT", "another")
	if asked := r.must(t, "diff", f, "--json-output"); strings.Contains(asked, "from-outside") || !strings.Contains(asked, `"updating": 1`) {
		t.Errorf("what was there before the value from the environment is shown: %s", asked)
	}
}

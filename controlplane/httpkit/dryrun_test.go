package httpkit

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// TestDryRunIsNeverIgnored: a write that asks for a dry run gets one, or is refused before anything
// happens. In no spelling does it become a write.
func TestDryRunIsNeverIgnored(t *testing.T) {
	const refused, tried, written = "refused", "tried", "written"
	offers, closed := Contract{Query: []Parameter{ParamDryRun}}, Contract{Closed: true}
	for _, c := range []struct {
		contract                    Contract
		method, query, want, detail string
	}{
		{offers, "PUT", "", written, ""},
		{offers, "PUT", "dryRun=false", written, ""},
		{offers, "PUT", "dryRun=true", tried, ""},
		{offers, "PUT", "x=1&dryRun=true", tried, ""},
		{offers, "PUT", "dryRun", refused, "dryRun: must be true or false, and given once"},
		{offers, "PUT", "dryRun=", refused, "dryRun: must be true or false, and given once"},
		{offers, "PUT", "dryRun=1", refused, "dryRun: must be true or false, and given once"},
		{offers, "PUT", "dryRun=True", refused, "dryRun: must be true or false, and given once"},
		{offers, "PUT", "dryRun=true&dryRun=false", refused, "dryRun: must be true or false, and given once"},
		{offers, "POST", "dryrun=true", refused, `dryrun: unknown parameter; did you mean "dryRun"?`},
		{offers, "PATCH", "dry_run=true", refused, `dry_run: unknown parameter; did you mean "dryRun"?`},
		{offers, "DELETE", "dry-run", refused, `dry-run: unknown parameter; did you mean "dryRun"?`},
		{offers, "PUT", "dryRun=true&a=%zz", refused, "the query is malformed"},
		{offers, "PUT", "d%72yRun=true&a=%zz", refused, "the query is malformed"},
		{offers, "DELETE", "a=%zz&d%72yR%75n=true", refused, "the query is malformed"},
		{Contract{}, "POST", "%zz", refused, "the query is malformed"},
		{Contract{}, "POST", "", written, ""},
		{Contract{}, "POST", "a=b", written, ""},
		{Contract{}, "POST", "dryRun=false", written, ""},
		{Contract{}, "POST", "dryRun=true", refused, "dryRun: cannot be tried here without doing it: nothing was done"},
		{Contract{}, "POST", "%64ryRun=true", refused, "dryRun: cannot be tried here without doing it: nothing was done"},
		{Contract{}, "POST", "DryRun=true", refused, `DryRun: unknown parameter; did you mean "dryRun"?`},
		{closed, "DELETE", "dryRun=true", refused, "dryRun: cannot be tried here without doing it: nothing was done"},
		{closed, "DELETE", "dryRun=false", written, ""},
		{closed, "DELETE", "other=1", refused, "other: unknown parameter"},
		{closed, "GET", "dryRun=true", refused, "dryRun: unknown parameter"},
		{Contract{}, "GET", "dryRun=true", tried, ""}, // nothing is written anyway
	} {
		got, detail := "", ""
		e := Endpoint{Method: c.method, Pattern: "/", Auth: Open, Contract: c.contract, Handler: func(_ http.ResponseWriter, r *http.Request) {
			got = written
			if dry, err := WantsDryRun(r); err != nil {
				t.Errorf("%s: %v", c.query, err)
			} else if dry {
				got = tried
			}
		}}
		h := Enforce(e, nil, func(_ http.ResponseWriter, _ *http.Request, err error) {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: %v", c.query, err)
			}
			got, detail = refused, err.Error()
		})
		r := httptest.NewRequest(c.method, "/", nil)
		r.URL.RawQuery = c.query
		h.ServeHTTP(httptest.NewRecorder(), r)
		if got != c.want || c.detail != "" && !strings.Contains(detail, c.detail) {
			t.Errorf("%s ?%s: %s %q, want %s %q", c.method, c.query, got, detail, c.want, c.detail)
		}
	}
}

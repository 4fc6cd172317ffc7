package gatewayapi_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestPlainFilters: the administration API of a single control plane has no filters by name and ignores them, as it
// does with all parameters that it does not know: its older clients send some.
func TestPlainFilters(t *testing.T) {
	f := setup(t, nil)
	f.do("POST", "/services", "name=own&host=h.test&tags=t")
	for _, path := range []string{"/services?filter[name]=x", "/services?filter[name][neq]=own", "/services?filter[tags]=x&filter=x", "/tags?filter[name]=x"} {
		if w := f.do("GET", path, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"t"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

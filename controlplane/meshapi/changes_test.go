package meshapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/changes/changestest"
)

// TestPagesOfChangesWhileOthersWrite: no change is missed or seen twice.
func TestPagesOfChangesWhileOthersWrite(t *testing.T) {
	changestest.PagesWhileOthersWrite(t, func(t *testing.T) changestest.API {
		a := newAPI(t)
		return changestest.API{
			Write: func(n int) { a.put(t, fmt.Sprint("/meshes/m", n), fmt.Sprintf(`{"type":"Mesh","name":"m%d"}`, n)) },
			Page: func(target string) (numbers []uint64, next string) {
				var page struct {
					Items []struct{ Number uint64 }
					Next  string
				}
				if err := json.Unmarshal(request(a.handler, http.MethodGet, target, "").Body.Bytes(), &page); err != nil {
					t.Fatal(err)
				}
				for _, item := range page.Items {
					numbers = append(numbers, item.Number)
				}
				return numbers, strings.TrimPrefix(page.Next, "http://127.0.0.1:5681")
			},
		}
	})
}

// TestLogNamesTheResource: the log line of a request says who did what to which resource.
func TestLogNamesTheResource(t *testing.T) {
	a := newAPI(t)
	a.put(t, "/meshes/m", `{"type":"Mesh","name":"m"}`)
	var requests []*http.Request
	for _, c := range [][4]string{
		{"PUT", "/meshes/m/tickets/t", goodTicket("t"), ""}, {"GET", "/meshes/m/tickets", "", "bob"}, {"GET", "/meshes/m/tickets/t", "", "bob"},
		{"GET", "/meshes/m/secrets/s", "", "bob"}, {"DELETE", "/meshes/m/tickets/t", "", ""}, {"GET", "/meshes/not%20a%20name", "", ""},
		{"GET", "/meshes/m/dataplanes/web-1/xds", "", ""}, {"GET", "/dataplanes+insights", "", ""}, {"GET", "/policies", "", "forged"},
	} {
		r := httptest.NewRequest(c[0], c[1], strings.NewReader(c[2]))
		r.Host = "localhost:5681"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-User", c[3])
		requests = append(requests, r)
	}
	if diff := cmp.Diff([]string{
		"PUT status=201 actor=user:mesh-system:admin kind=ticket name=t", "GET status=200 actor=user:bob kind=ticket",
		"GET status=200 actor=user:bob kind=ticket name=t", "GET status=403 actor=user:bob",
		"DELETE status=200 actor=user:mesh-system:admin kind=ticket name=t", "GET status=404 actor=user:mesh-system:admin kind=mesh",
		"GET status=404 actor=user:mesh-system:admin kind=dataplane name=web-1", "GET status=200 actor=user:mesh-system:admin kind=dataplane",
		"GET status=401",
	}, changestest.Logged(t, a.handler, requests)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

package meshapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// TestPagesOfChangesWhileOthersWrite: whoever follows the pages sees everything that was
// there when it began, each once, whatever is written meanwhile.
func TestPagesOfChangesWhileOthersWrite(t *testing.T) {
	for _, c := range []struct{ start, want string }{
		{"/changes?size=6", "20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1"},
		{"/changes?size=6&since=9", "10 11 12 13 14 15 16 17 18 19 20 21"}, // and what came before it got there
	} {
		a := newAPI(t)
		for i := range 20 {
			a.put(t, fmt.Sprint("/meshes/m", i), fmt.Sprintf(`{"type":"Mesh","name":"m%d"}`, i))
		}
		var seen []string
		for next := c.start; next != ""; {
			rec := request(a.handler, http.MethodGet, next, "")
			var page struct {
				Items []struct{ Number uint64 }
				Next  string
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &page); err != nil {
				t.Fatal(err)
			}
			for _, item := range page.Items {
				seen = append(seen, fmt.Sprint(item.Number))
			}
			if next = strings.TrimPrefix(page.Next, "http://127.0.0.1:5681"); len(seen) < 13 {
				a.put(t, "/meshes/again", `{"type":"Mesh","name":"again"}`)
			}
		}
		if got := strings.Join(seen, " "); got != c.want {
			t.Errorf("%s: %s", c.start, got)
		}
	}
}

// TestLogNamesTheResource: the line of a request says who did what to which resource.
func TestLogNamesTheResource(t *testing.T) {
	a := newAPI(t)
	a.put(t, "/meshes/m", `{"type":"Mesh","name":"m"}`)
	var log bytes.Buffer
	h := httpkit.Observe(a.handler, slog.New(slog.NewTextHandler(&log, nil)))
	var got []string
	for _, c := range [][4]string{
		{"PUT", "/meshes/m/tickets/t", goodTicket("t"), ""}, {"GET", "/meshes/m/tickets", "", "bob"}, {"GET", "/meshes/m/tickets/t", "", "bob"},
		{"GET", "/meshes/m/secrets/s", "", "bob"}, {"DELETE", "/meshes/m/tickets/t", "", ""}, {"GET", "/meshes/not%20a%20name", "", ""},
		{"GET", "/meshes/m/dataplanes/web-1/xds", "", ""}, {"GET", "/dataplanes+insights", "", ""}, {"GET", "/policies", "", "forged"},
	} {
		log.Reset()
		r := httptest.NewRequest(c[0], c[1], strings.NewReader(c[2]))
		r.Host = "localhost:5681"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-User", c[3])
		h.ServeHTTP(httptest.NewRecorder(), r)
		line := c[0]
		for _, word := range strings.Fields(log.String()) {
			if name, _, _ := strings.Cut(word, "="); slices.Contains([]string{"status", "actor", "kind", "name"}, name) {
				line += " " + word
			}
		}
		got = append(got, line)
	}
	if diff := cmp.Diff([]string{
		"PUT status=201 actor=user:mesh-system:admin kind=ticket name=t", "GET status=200 actor=user:bob kind=ticket",
		"GET status=200 actor=user:bob kind=ticket name=t", "GET status=403 actor=user:bob",
		"DELETE status=200 actor=user:mesh-system:admin kind=ticket name=t", "GET status=404 actor=user:mesh-system:admin kind=mesh",
		"GET status=404 actor=user:mesh-system:admin kind=dataplane name=web-1", "GET status=200 actor=user:mesh-system:admin kind=dataplane",
		"GET status=401",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

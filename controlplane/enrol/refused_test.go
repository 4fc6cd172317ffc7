package enrol

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/filter/contract"
)

// A refusal is reported with the name of the node, and with a reason that the node is not
// told.
func TestRefusedEnrolmentsNameTheNode(t *testing.T) {
	for name, tc := range map[string]struct{ token, body, want string }{
		"a gateway": {"x", good, "cp/default/gw: the node token is not a token: token is malformed: token contains an invalid number of segments"},
		"a sidecar": {"x", `{"mesh":"default","name":"web-1","relay":{"socket":"s","adminSocket":"a"}}`, "default.web-1: the dataplane token is not valid"},
		"a sidecar with another's token": {
			"default/web-2/web", `{"mesh":"default","name":"web-1","relay":{"socket":"s","adminSocket":"a"}}`, "default.web-1: the dataplane token is for another proxy",
		},
		"nobody":              {"x", `{"mesh":"default"}`, ""},
		"one of no dataplane": {"default/web-1/web", `{"mesh":"default","name":"web-1","relay":{"socket":"s","adminSocket":"a"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newMeshServer(t)
			var got string
			s.Refused = func(node, reason string, proved bool) {
				got = fmt.Sprintf("%s: %s", node, reason)
				if proved {
					got += " (proved)"
				}
			}
			r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(tc.body))
			r.Header.Set("Authorization", "Bearer "+tc.token)
			r.Header.Set(contract.NodeHeader, "cp/default/gw")
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, r)
			if rec.Code < 400 {
				t.Errorf("answered %d", rec.Code)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An answer says whether the control plane counts a filter of the node.
func TestUnknownNodes(t *testing.T) {
	w := newWorld(t)
	for name, tc := range map[string]struct {
		remembers func(string) bool
		want      bool
	}{
		"nobody says":      {nil, false},
		"it is remembered": {func(node string) bool { return node == "cp/default/gw" }, false},
		"it is not":        {func(string) bool { return false }, true},
	} {
		w.Remembers = tc.remembers
		r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(good))
		r.Header.Set("Authorization", "Bearer "+w.token)
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r)
		if got := strings.Contains(rec.Body.String(), `"unknown":true`); rec.Code != http.StatusOK || got != tc.want {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
}

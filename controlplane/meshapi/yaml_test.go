package meshapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// untouched fails a test that reads from it.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, http.ErrBodyReadAfterClose
}

// TestYAMLWithoutAWrite: everybody can call GET /, so it must not read the body. Neither must
// other requests without a body.
func TestYAMLWithoutAWrite(t *testing.T) {
	a := newAPI(t)
	a.put(t, "/meshes/m", `{"type":"Mesh","name":"m"}`)
	for _, tc := range []struct{ method, path, user string }{
		{http.MethodGet, "/", "forged"}, {http.MethodGet, "/meshes/m", ""}, {http.MethodDelete, "/meshes/m", ""},
	} {
		r := httptest.NewRequest(tc.method, "http://127.0.0.1:5681"+tc.path, untouched{t})
		r.Header.Set("Content-Type", mediaYAML)
		r.Header.Set("X-User", tc.user)
		rec := httptest.NewRecorder()
		if a.handler.ServeHTTP(rec, r); rec.Code != http.StatusOK {
			t.Errorf("%s %s: %d %s", tc.method, tc.path, rec.Code, rec.Body)
		}
	}
}

// TestYAMLDoesNotGrow: a small document with many references to itself is refused before it
// is expanded.
func TestYAMLDoesNotGrow(t *testing.T) {
	a := newAPI(t)
	doc := "type: Mesh\nname: m\na: &a " + strings.Repeat("x", 1<<10) + "\nb: [" + strings.Repeat("*a,", 1<<10) + "]\n"
	rec := request(a.handler, http.MethodPut, "/meshes/m", doc, "Content-Type", mediaYAML)
	if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "anchors and aliases") {
		t.Errorf("%d %.200s", rec.Code, rec.Body)
	}
}

package meshapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestWarningsAreShort: long names from a client must not make answers so long that proxies
// refuse them, or many times as long as the request.
func TestWarningsAreShort(t *testing.T) {
	a := newAPI(t)
	var members strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&members, `,"%s%d":1`, strings.Repeat("é", 300), i)
	}
	long := `"` + strings.Repeat("k", 1<<18) + `":1`
	for name, body := range map[string]string{
		"beside each other": `{"type":"Mesh","name":"m"` + members.String() + `}`,
		"each long":         `{"type":"Mesh","name":"m","routing":{` + long + `},` + long + `}`,
	} {
		for _, how := range []string{"warn", "strict"} {
			rec := request(a.handler, http.MethodPut, "/meshes/m?fieldValidation="+how, body, "Content-Type", mediaJSON)
			heads := strings.Join(rec.Header().Values("Warning"), "")
			if status := map[string]bool{"warn": rec.Code < 300, "strict": rec.Code == http.StatusBadRequest}[how]; !status || len(heads) > 4<<10 || rec.Body.Len() > 100<<10 {
				t.Errorf("%s, %s: %d, headers of %d bytes, a body of %d", name, how, rec.Code, len(heads), rec.Body.Len())
			}
		}
	}
}

// TestMembersWithoutEffect: a mesh with timeouts that nothing waits for is stored as it is, and its author
// is told.
func TestMembersWithoutEffect(t *testing.T) {
	a := newAPI(t)
	const body = `{"type":"Mesh","name":"idle","mtls":{"backends":[{"name":"ca","type":"builtin","dpCert":{"requestTimeout":"10s"},"rootChain":{"requestTimeout":"5s"}}]}}`
	for _, how := range []string{"strict", "warn", "ignore"} {
		rec := request(a.handler, http.MethodPut, "/meshes/idle?fieldValidation="+how, body, "Content-Type", mediaJSON)
		for _, path := range []string{"dpCert", "rootChain"} {
			if want := "mtls.backends[0]." + path + ".requestTimeout: has no effect"; rec.Code > 299 || !strings.Contains(rec.Body.String(), want) || len(rec.Header().Values("Warning")) != 2 {
				t.Errorf("%s: %d %v %s", how, rec.Code, rec.Header(), rec.Body)
			}
		}
	}
	if shown := request(a.handler, http.MethodGet, "/meshes/idle", "").Body.String(); strings.Count(shown, `"requestTimeout"`) != 2 {
		t.Errorf("shown as %s", shown)
	}
}

package cloudapi

import (
	"fmt"
	"net/http"
	"testing"
)

// TestPauseEnds: a receiver that is back is tried at once after a test, and after a PATCH of its webhook or its
// destination that changes what deliveries use. One that changes nothing, or a name, has nobody tried.
func TestPauseEnds(t *testing.T) {
	s := newSIEM(t)
	c := whole(t, s)
	defer http.DefaultClient.CloseIdleConnections()
	must := func(want int, method, path, body string) map[string]any {
		t.Helper()
		status, doc := call(t, method, c.URL+path, body)
		if status != want {
			t.Fatalf("%s %s: %d %v", method, path, status, doc)
		}
		return doc
	}
	id := must(200, "POST", destinations, fmt.Sprintf(`{"name":"siem","endpoint":%q,"authorization":"Basic c2VjcmV0","log_format":"json"}`, s.URL))["id"]
	at := portalsPath + "/" + must(201, "POST", portalsPath, `{"name":"docs"}`)["id"].(string) + hookPath
	must(200, "PATCH", at, fmt.Sprintf(`{"enabled":true,"audit_log_destination_id":%q}`, id))
	shows := func(status string) func() bool {
		return func() bool { return must(200, "GET", at+"/status", "")["webhook_status"] == status }
	}
	arrived := 0
	for name, ask := range map[string]func(){
		"a test":     func() { must(202, "POST", at+"/test", ""); arrived++ },
		"off and on": func() { must(200, "PATCH", at, `{"enabled":false}`); must(200, "PATCH", at, `{"enabled":true}`) },
		"an endpoint": func() {
			must(200, "PATCH", destinations+"/"+id.(string), fmt.Sprintf(`{"endpoint":%q,"authorization":"Basic c2VjcmV0"}`, s.URL+"/other"))
		},
	} {
		s.set(true)
		must(202, "POST", at+"/test", "")
		arrived++
		eventually(t, "inactive", shows("inactive"))
		before := s.asked()
		for _, called := range []string{"siem", "other", "siem"} {
			must(200, "PATCH", at, `{"enabled":true}`)
			must(200, "PATCH", destinations+"/"+id.(string), fmt.Sprintf(`{"name":%q}`, called))
		}
		if n := s.asked() - before; n != 0 {
			t.Errorf("%s: %d requests in the pause, of who changed nothing", name, n)
		}
		s.set(false)
		ask()
		eventually(t, name, func() bool { return len(s.names()) == arrived })
		eventually(t, "active", shows("active"))
	}
}

// asked is how many requests have come while it was away.
func (s *siem) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.refused)
}

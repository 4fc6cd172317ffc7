package assembly

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/meshapi"
)

// published is the set that receivers of the audit log fetch, without a token.
func (m *moded) published() (set audit.Keys) {
	rec := httptest.NewRecorder()
	m.cloudAPI(m.identifyCloud).Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "http://localhost:5690/v2/audit-log-webhook/jwks.json", nil))
	_ = json.Unmarshal(rec.Body.Bytes(), &set) // the test would miss its keys
	return set
}

// audits lists the keys of the audit log and their states, as `meshgate keys list` does, and the key ids of those
// that are published.
func (m *moded) audits(t *testing.T) (states string, kids []string) {
	t.Helper()
	var list struct{ Items []meshapi.Key }
	if err := json.Unmarshal(m.ask(http.MethodGet, "/keys", "").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	for _, k := range list.Items {
		if k.Kind == meshapi.KeysAudit {
			states += k.Name + " " + k.State + ", "
			if _, kid, named := strings.Cut(k.Purpose, "kid "); named && k.State != keyCompromised {
				kids = append(kids, kid)
			}
		}
	}
	return strings.TrimSuffix(states, ", "), kids
}

// verifies reports whether a key of a set has signed a text.
func verifies(set audit.Keys, text, sig string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(sig)
	for _, k := range set.Keys {
		x, bad := base64.RawURLEncoding.DecodeString(k.X)
		if err == nil && bad == nil && ed25519.Verify(x, []byte(text), raw) {
			return true
		}
	}
	return false
}

// TestKeysOfTheAuditLog: a rotation over the mesh API makes a key that signs at once, and that is published before
// the others, in the running process. Events of before verify until their key is deleted, or withdrawn. The key
// that signs is not deleted.
func TestKeysOfTheAuditLog(t *testing.T) {
	m := openModed(t, func(c *config.Config) { c.Cloud.Roles = config.CloudGlobal })
	if m.cloud.engine.Signer != m.cloud.signer {
		t.Error("what is delivered is signed by something else")
	}
	type signed struct{ text, sig string }
	var events []signed
	const rotate = "/keys/audit-log/rotate"
	for i, step := range []struct {
		method, path, body string
		status             int
		said               string
		states             string
		verified           []bool // of the event of each step before this one
	}{
		{"POST", rotate, "", 200, "Key 2 signs audit events from now on.", "1 accepted, 2 active", []bool{true}},
		{"DELETE", "/keys/audit-log/2", "", 409, "key 2 signs the audit log", "1 accepted, 2 active", []bool{true, true}},
		{"DELETE", "/keys/audit-log/2?force=true", "", 400, "does not belong to audit-log", "1 accepted, 2 active", []bool{true, true, true}},
		{"DELETE", "/keys/audit-log/1", "", 200, "", "2 active", []bool{false, true, true, true}},
		{"DELETE", "/keys/audit-log/2", "", 409, "key 2 signs the audit log", "2 active", []bool{false, true, true, true, true}},
		{"DELETE", "/keys/audit-log/1", "", 404, "no key 1", "2 active", []bool{false, true, true, true, true, true}},
		{"POST", rotate, `{"compromised":true}`, 200, "Key 3 signs audit events from now on. Withdrawn: key 2.", "2 compromised, 3 active", []bool{false, false, false, false, false, false, false}},
		{"DELETE", "/keys/audit-log/2", "", 404, "no key 2", "2 compromised, 3 active", []bool{false, false, false, false, false, false, false, true}},
		{"POST", rotate, `{"mesh":"default"}`, 400, "does not belong to audit-log", "2 compromised, 3 active", nil},
		{"POST", rotate, `{"forgetOld":true}`, 400, "does not belong to audit-log", "2 compromised, 3 active", nil},
		{"POST", rotate, `{"force":true}`, 400, "does not belong to audit-log", "2 compromised, 3 active", nil},
	} {
		text := fmt.Sprint("event ", i)
		events = append(events, signed{text, m.cloud.signer.Sign([]byte(text))})
		if rec := m.ask(step.method, step.path, step.body); rec.Code != step.status || !strings.Contains(rec.Body.String(), step.said) {
			t.Errorf("step %d: %d %s", i, rec.Code, rec.Body)
		}
		set := m.published()
		states, kids := m.audits(t)
		if states != step.states || len(kids) != len(set.Keys) {
			t.Fatalf("step %d: the keys are %s, and %d are published", i, states, len(set.Keys))
		}
		for k, kid := range kids { // the list has the oldest first
			if set.Keys[len(kids)-1-k].ID != kid {
				t.Errorf("step %d: %s is published as %v", i, kid, set)
			}
		}
		for k, want := range step.verified {
			if got := verifies(set, events[k].text, events[k].sig); got != want {
				t.Errorf("step %d: event %d verifies: %v", i, k, got)
			}
		}
		if sig := m.cloud.signer.Sign([]byte("x")); !verifies(audit.Keys{Keys: set.Keys[:1]}, "x", sig) {
			t.Errorf("step %d: the first key that is published does not sign", i)
		}
	}
}

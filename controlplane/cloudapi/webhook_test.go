package cloudapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/portal"
	"github.com/meshgate/meshgate/controlplane/store"
)

const hookPath = "/audit-log-webhook"

// is compares a document with what it should be.
func (f *fixture) is(doc map[string]any, want string) {
	f.t.Helper()
	if got := fmt.Sprint(doc); got != want {
		f.t.Errorf("the document is %s, want %s", got, want)
	}
}

// TestWebhook: the record has two members; a change may name either of them, or both.
func TestWebhook(t *testing.T) {
	f := setup(t)
	at := f.portal("docs") + hookPath
	a, b := f.created("a"), f.created("b")
	f.is(f.must(200, "GET", at, ""), "map[enabled:false]")
	f.is(f.must(200, "PATCH", at, `{"enabled":false}`), "map[enabled:false]")
	f.is(f.must(200, "PATCH", at, `{"audit_log_destination_id":"`+strings.ToUpper(a)+`"}`), "map[audit_log_destination_id:"+a+" enabled:false]")
	f.is(f.must(200, "PATCH", at, `{"enabled":true}`), "map[audit_log_destination_id:"+a+" enabled:true]")
	f.is(f.must(200, "PATCH", at, `{"enabled":false,"audit_log_destination_id":"`+b+`"}`), "map[audit_log_destination_id:"+b+" enabled:false]")
	f.is(f.must(200, "PATCH", at, `{}`), "map[audit_log_destination_id:"+b+" enabled:false]")
	f.is(f.must(200, "GET", at, ""), "map[audit_log_destination_id:"+b+" enabled:false]")
	f.must(204, "DELETE", at, "")
	f.is(f.must(200, "GET", at, ""), "map[enabled:false]")
	f.must(204, "DELETE", at, "")
}

// TestWebhookRefusals: each mistake is named, and changes nothing.
func TestWebhookRefusals(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	used := f.created("used")
	const nobody = "10000000-0000-4000-8000-000000000000"
	now := func(d time.Duration) string { return f.now.Add(d).UTC().Format(time.RFC3339) }
	span := func(start, end string) string { return fmt.Sprintf(`{"start_at":%q,"end_at":%q}`, start, end) }
	check := func(method, path, body, want string) {
		t.Helper()
		if got := told(f.do(method, path, body)); got != want {
			t.Errorf("%s %s %s:\n%s\nwant\n%s", method, path, body, got, want)
		}
	}
	const invalid = "400 Invalid Request/Invalid Parameters/"
	check("PATCH", at+hookPath, `{"enabled":true}`, invalid+`audit_log_destination_id/"audit_log_destination_id" is required/required`)
	check("PATCH", at+hookPath, `{"enabled":true,"audit_log_destination_id":"`+nobody+`"}`, invalid+"audit_log_destination_id/the destination does not exist/missing_reference")
	check("PATCH", at+hookPath, `{"audit_log_destination_id":"siem"}`, invalid+"audit_log_destination_id/expected a valid UUID/is_uuid")
	check("PATCH", at+hookPath, `{"audit_log_destination_id":7}`, invalid+"audit_log_destination_id/expected a string/is_string")
	check("PATCH", at+hookPath, `{"enabled":"true"}`, invalid+"enabled/expected a boolean/is_boolean")
	check("PATCH", at+hookPath, `{"enable":true}`, invalid+"enable/property enable should not exist/unknown_property")
	check("PATCH", at+hookPath, `[]`, "400 Bad Request/Could not parse request body/body/request format is invalid/<nil>")
	check("POST", at+hookPath+"/test", ``, "409 Conflict/The audit log webhook is not enabled")
	check("PUT", at+"/audit-log-replay-job", span(now(-time.Hour), now(0)), "409 Conflict/The audit log webhook has no destination")
	f.is(f.must(200, "GET", at+hookPath, ""), "map[enabled:false]")
	f.must(200, "PATCH", at+hookPath, `{"audit_log_destination_id":"`+used+`"}`)
	check("DELETE", destinations+"/"+used, ``, `409 Conflict/The destination is used by the audit log webhook of portal "docs" (`+strings.TrimPrefix(at, portalsPath+"/")+`)`)
	for body, want := range map[string]string{
		`{"end_at":"` + now(0) + `"}`:                invalid + `start_at/"start_at" is required/required`,
		span("yesterday", now(0)):                    invalid + "start_at/" + cloud.TextTime + "/is_date_time",
		span(now(-7*24*time.Hour-time.Hour), now(0)): invalid + "start_at/must be within the last 7 days/invalid",
		span(now(-time.Hour), now(-2*time.Hour)):     invalid + "end_at/must not be before start_at/invalid",
		span(now(-time.Hour), now(time.Hour)):        invalid + "end_at/must not be in the future/invalid",
	} {
		check("PUT", at+"/audit-log-replay-job", body, want)
	}
	for _, path := range []string{hookPath, hookPath + "/status", "/audit-log-replay-job"} {
		check("GET", portalsPath+"/"+nobody+path, "", "404 Not Found/Not Found")
	}
	check("PATCH", portalsPath+"/"+nobody+hookPath, `{"enabled":1}`, "404 Not Found/Not Found")
	check("DELETE", portalsPath+"/"+nobody+hookPath, ``, "404 Not Found/Not Found")
	check("PUT", portalsPath+"/"+nobody+"/audit-log-replay-job", `{}`, "404 Not Found/Not Found")
	check("POST", portalsPath+"/"+nobody+hookPath+"/test", ``, "404 Not Found/Not Found")
	f.must(204, "DELETE", at+hookPath, "")
	f.must(204, "DELETE", destinations+"/"+used, "")
}

// tried stores what a delivery to the destination of a portal came to.
func (f *fixture) tried(at string, code int, failed bool, message string) {
	f.t.Helper()
	id := strings.TrimPrefix(at, portalsPath+"/")
	_, err := f.api.Gate.As(model.System("test")).Write(f.t.Context(), model.Config, func(tx store.Tx) error {
		hook, err := tx.Get(cloud.Webhooks, "", id)
		if err != nil {
			return err
		}
		spec := &cloud.Delivery{Destination: hook.Spec.(*cloud.Webhook).Destination, AttemptedAt: f.now.UnixMilli(), Code: code, Failed: failed, Message: message}
		res := &model.Resource{Kind: cloud.Deliveries, Name: id, Spec: spec}
		if _, err = tx.Get(cloud.Deliveries, "", id); fault.Is(err, fault.NotFound) {
			_, err = tx.Create(res)
		} else if err == nil {
			_, err = tx.Update(res, 0)
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// TestStatus: all rows of the table of statuses, and how they follow each other.
func TestStatus(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	a, b := f.created("a"), f.created("b")
	status := func(want string) {
		t.Helper()
		f.is(f.must(200, "GET", at+hookPath+"/status", ""), want)
	}
	patch := func(body string) {
		t.Helper()
		f.must(200, "PATCH", at+hookPath, body)
	}
	const never = "map[webhook_enabled:%t webhook_status:%s]"
	const tried = "map[last_attempt_at:2023-11-14T22:13:20.123Z last_response_code:%d webhook_enabled:%t webhook_status:%s]"
	status(fmt.Sprintf(never, false, "unconfigured"))
	patch(`{"enabled":false}`)
	status(fmt.Sprintf(never, false, "unconfigured"))
	patch(`{"audit_log_destination_id":"` + a + `"}`)
	status(fmt.Sprintf(never, false, "active"))
	patch(`{"enabled":true}`)
	status(fmt.Sprintf(never, true, "active"))
	f.tried(at, 500, false, "") // an attempt that is repeated
	status(fmt.Sprintf(tried, 500, true, "active"))
	f.tried(at, 401, true, "")
	status(fmt.Sprintf(tried, 401, true, "inactive"))
	patch(`{"enabled":false}`)
	status(fmt.Sprintf(tried, 401, false, "inactive"))
	patch(`{"enabled":true}`)
	status(fmt.Sprintf(tried, 401, true, "inactive"))
	f.tried(at, 202, false, "")
	status(fmt.Sprintf(tried, 202, true, "active"))
	f.tried(at, 0, true, "the connection was refused")
	status("map[last_attempt_at:2023-11-14T22:13:20.123Z last_response_message:the connection was refused webhook_enabled:true webhook_status:inactive]")
	patch(`{"audit_log_destination_id":"` + b + `"}`)
	status(fmt.Sprintf(never, true, "active"))
	patch(`{"audit_log_destination_id":"` + a + `"}`)
	status(fmt.Sprintf(never, true, "active"))
	f.tried(at, 401, true, "")
	f.must(204, "DELETE", at+hookPath, "")
	status(fmt.Sprintf(never, false, "unconfigured"))
	patch(`{"audit_log_destination_id":"` + a + `"}`)
	status(fmt.Sprintf(never, false, "active"))
}

// TestStatusOfAnother: what is known of another destination counts for nothing.
func TestStatusOfAnother(t *testing.T) {
	h := hooked{hook: cloud.Webhook{Enabled: true, Destination: "a"}, progress: cloud.Delivery{Destination: "b", AttemptedAt: 1, Code: 500, Failed: true}}
	if got := h.status(); got != (webhookStatus{Enabled: true, Status: statusActive}) {
		t.Errorf("%+v", got)
	}
}

// TestEmptied: what waits when a webhook is emptied is not for whoever is named next.
func TestEmptied(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.hook(at)
	f.login(at, "nobody@example.com", "x")
	f.must(204, "DELETE", at+hookPath, "")
	f.login(at, "nobody@example.com", "x")
	events := f.events(at)
	if len(events) != 1 {
		t.Fatalf("%d events", len(events))
	}
	err := f.api.Store.View(t.Context(), func(r store.Reader) error {
		h, err := hookedIn(r, strings.TrimPrefix(at, portalsPath+"/"))
		if h.progress != (cloud.Delivery{}) {
			t.Errorf("%+v", h.progress)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReplayJob: there is one at a time, and it says how far it is.
func TestReplayJob(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	job := at + "/audit-log-replay-job"
	f.is(f.must(200, "GET", job, ""), "map[status:unconfigured]")
	f.hook(at)
	const body = `{"start_at":"2023-11-14T00:00:00Z","end_at":"2023-11-14T23:00:00+01:00"}`
	const want = "map[end_at:2023-11-14T22:00:00.000Z start_at:2023-11-14T00:00:00.000Z status:%s updated_at:2023-11-14T22:13:20.123Z]"
	f.is(f.must(202, "PUT", job, body), fmt.Sprintf(want, "accepted"))
	f.is(f.must(200, "GET", job, ""), fmt.Sprintf(want, "accepted"))
	if got := told(f.do("PUT", job, body)); got != "409 Resource Conflict/A replay job is currently running" {
		t.Error(got)
	}
	f.must(200, "PATCH", at+hookPath, `{"enabled":false}`)
	f.is(f.must(200, "GET", job, ""), fmt.Sprintf(want, "pending"))
	f.must(204, "DELETE", at+hookPath, "")
	f.is(f.must(200, "GET", job, ""), "map[status:unconfigured]")
}

// TestTestEvent: a test is an event like others, that says that it is one. There are few of them.
func TestTestEvent(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.hook(at)
	id := f.must(202, "POST", at+hookPath+"/test", "")["event_id"]
	events := f.events(at)
	if len(events) != 1 || events[0].ID != id || events[0].Outcome != audit.Test || events[0].Principal != "" || events[0].Organization != "org" {
		t.Errorf("%v", events)
	}
	for range 9 {
		f.must(202, "POST", at+hookPath+"/test", "")
	}
	if got := told(f.do("POST", at+hookPath+"/test", "")); got != toldMany {
		t.Error(got)
	}
}

// TestKeys: everybody may read the keys, whether they show a token or not.
func TestKeys(t *testing.T) {
	f := setup(t)
	for _, token := range []string{"", "vera", "admin"} {
		status, doc := f.as(token, http.MethodGet, "/v2/audit-log-webhook/jwks.json", "")
		key := signer(t).Keys().Keys[0]
		if got, want := fmt.Sprint(status, doc), fmt.Sprintf("200 map[keys:[map[alg:EdDSA crv:Ed25519 kid:%s kty:OKP x:%s]]]", key.ID, key.X); got != want {
			t.Errorf("%s: %s, want %s", token, got, want)
		}
	}
}

// TestBusy: when too many passwords are verified at once, others are told to come back.
func TestBusy(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.hook(at)
	dev := f.developer(at, "ada@example.com")
	invited := f.must(201, "POST", dev+"/verification-token", "")["token"]
	second := map[string]string{}
	if a := f.site("POST", at, "/verify-email", fmt.Sprintf(`{"token":%q}`, invited), nil); json.Unmarshal(a.Body.Bytes(), &second) != nil || a.Code != 202 {
		t.Fatal(a.told())
	}
	reset := fmt.Sprintf(`{"token":%q,"password":%q}`, second["token"], password)
	hasher := f.api.Accounts.Hasher
	f.api.Accounts.Hasher = &portal.Hasher{}
	for path, body := range map[string]string{
		"/authenticate": fmt.Sprintf(`{"username":"ada@example.com","password":%q}`, password), "/reset-password": reset,
	} {
		got := f.site("POST", at, path, body, nil)
		if got.told() != toldMany || got.Header().Get("Retry-After") != "1" || len(got.cookies) > 0 {
			t.Errorf("%s: %s, Retry-After %q, cookies %v", path, got.told(), got.Header().Get("Retry-After"), got.cookies)
		}
	}
	if list := f.events(at); len(list) != 0 {
		t.Errorf("%v", list)
	}
	f.api.Accounts.Hasher = hasher
	if got := f.site("POST", at, "/reset-password", reset, nil); got.Code != 204 {
		t.Errorf("who comes back: %s", got.told())
	}
}

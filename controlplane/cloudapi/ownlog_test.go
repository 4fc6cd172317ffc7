package cloudapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

const ownHook = "/v2/audit-log-webhook"

// TestOwnWebhook: the webhook of the control plane is like that of a portal, but it is emptied only when
// it is off.
func TestOwnWebhook(t *testing.T) {
	f := setup(t)
	a := f.created("a")
	f.is(f.must(200, "GET", ownHook, ""), "map[enabled:false]")
	f.is(f.must(200, "GET", ownHook+"/status", ""), "map[webhook_enabled:false webhook_status:unconfigured]")
	f.is(f.must(200, "GET", "/v2/audit-log-replay-job", ""), "map[status:unconfigured]")
	if got := told(f.do("PATCH", ownHook, `{"enabled":true}`)); got != `400 Invalid Request/Invalid Parameters/audit_log_destination_id/"audit_log_destination_id" is required/required` {
		t.Error(got)
	}
	if got := told(f.do("POST", ownHook+"/test", "")); got != "409 Conflict/The audit log webhook is not enabled" {
		t.Error(got)
	}
	f.is(f.must(200, "PATCH", ownHook, `{"enabled":true,"audit_log_destination_id":"`+a+`"}`), "map[audit_log_destination_id:"+a+" enabled:true]")
	if got := told(f.do("DELETE", ownHook, "")); got != "409 Conflict/The audit log webhook is enabled; disable it first" {
		t.Error(got)
	}
	if doc := f.must(202, "POST", ownHook+"/test", ""); doc["event_id"] == "" {
		t.Error(doc)
	}
	now := f.now.UTC().Format(time.RFC3339)
	if doc := f.must(202, "PUT", "/v2/audit-log-replay-job", `{"start_at":"`+now+`","end_at":"`+now+`"}`); doc["status"] != "accepted" {
		t.Error(doc)
	}
	f.must(200, "PATCH", ownHook, `{"enabled":false}`)
	f.must(204, "DELETE", ownHook, "")
	f.is(f.must(200, "GET", ownHook, ""), "map[enabled:false]")
	for _, path := range []string{portalsPath + "/" + cloud.ControlPlaneLog, portalsPath + "/" + cloud.ControlPlaneLog + hookPath} {
		if status, _ := f.do("GET", path, ""); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// TestOwnEnd: while the last events of the log wait, its webhook is neither emptied nor led elsewhere.
func TestOwnEnd(t *testing.T) {
	f := setup(t)
	a, b := f.created("a"), f.created("b")
	reached := func(event uint64) {
		t.Helper()
		f.tried(cloud.ControlPlaneLog, 0, false, "")
		_, err := f.api.Gate.As(model.System("test")).Write(t.Context(), model.Config, func(tx store.Tx) error {
			name := func(n uint64) string { return cloud.EventName(cloud.ControlPlaneLog, n) }
			_, err := tx.Update(&model.Resource{Kind: cloud.Deliveries, Name: cloud.ControlPlaneLog, Spec: &cloud.Delivery{Destination: a, Cursor: name(event), Final: name(9)}}, 0)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	const waits = "409 Conflict/The last events of the audit log are not delivered yet; they are given up after seven days"
	to := func(id string) string { return fmt.Sprintf(`{"audit_log_destination_id":%q}`, id) }
	f.must(200, "PATCH", ownHook, to(a))
	reached(8)
	for _, body := range []string{to(b), `{"enabled":true,"audit_log_destination_id":"` + b + `"}`} {
		if got := told(f.do("PATCH", ownHook, body)); got != waits {
			t.Errorf("%s: %s", body, got)
		}
	}
	if got := told(f.do("DELETE", ownHook, "")); got != waits {
		t.Error(got)
	}
	f.is(f.must(200, "PATCH", ownHook, to(a)), "map[audit_log_destination_id:"+a+" enabled:false]")
	f.must(200, "PATCH", ownHook, `{"enabled":true}`)
	f.must(200, "PATCH", ownHook, `{"enabled":false}`)
	reached(9)
	f.is(f.must(200, "PATCH", ownHook, to(b)), "map[audit_log_destination_id:"+b+" enabled:false]")
	f.must(204, "DELETE", ownHook, "")
}

// TestOwnDestination: only administrators change where the log of the control plane goes, or delete it,
// while its webhook is on and while it is off; an editor does with every other destination as ever.
func TestOwnDestination(t *testing.T) {
	f := setup(t)
	own, other := destinations+"/"+f.created("own"), destinations+"/"+f.created("other")
	const forbidden = "403 Forbidden/You do not have permission to perform this action"
	check := func(token, method, path, body, want string) {
		t.Helper()
		if got := told(f.as(token, method, path, body)); got != want {
			t.Errorf("%s: %s %s %s: %s, want %s", token, method, path, body, got, want)
		}
	}
	const fine, deleted = "200 <nil>/<nil>", "204 <nil>/<nil>"
	check("eddie", "PATCH", own, `{"endpoint":"https://eddie.example/1","authorization":"Bearer e"}`, fine)
	for _, enabled := range []string{"true", "false"} {
		f.must(200, "PATCH", ownHook, fmt.Sprintf(`{"enabled":%s,"audit_log_destination_id":%q}`, enabled, strings.TrimPrefix(own, destinations+"/")))
		for _, body := range []string{`{"endpoint":"https://eddie.example/2"}`, `{"skip_ssl_verification":true}`, `{"name":"x"}`, `{"log_format":"xml"}`, `{}`} {
			check("eddie", "PATCH", own, body, forbidden)
			check("eddie", "PATCH", own[:len(own)-36]+strings.ToUpper(own[len(own)-36:]), body, forbidden)
		}
		check("eddie", "DELETE", own, "", forbidden)
		check("admin", "DELETE", own, "", "409 Conflict/The destination is used by the audit log webhook of the control plane itself")
		check("admin", "PATCH", own, `{"skip_ssl_verification":false}`, fine)
		check("eddie", "PATCH", other, `{"endpoint":"https://eddie.example/3","authorization":"Bearer e"}`, fine)
	}
	if got := f.must(200, "GET", own, "")["endpoint"]; got != "https://eddie.example/1" {
		t.Error(got)
	}
	check("eddie", "DELETE", other, "", deleted)
	f.must(204, "DELETE", ownHook, "")
	check("eddie", "DELETE", own, "", deleted)
}

// TestOwnDestinationNamedMeanwhile: a destination that the webhook names after an editor's change was let
// in is not changed either: the transaction of the change looks again.
func TestOwnDestinationNamedMeanwhile(t *testing.T) {
	f := setup(t)
	id := f.created("own")
	r := httptest.NewRequest(http.MethodPatch, destinations+"/"+id, nil)
	r = r.WithContext(model.WithActor(r.Context(), model.User("eddie")))
	at := admit.Address{Kind: cloud.Destinations, Key: id}
	may := served{f.api, auditDestinations}.guard(r, nil)
	f.must(200, "PATCH", ownHook, fmt.Sprintf(`{"audit_log_destination_id":%q}`, id))
	if _, err := f.api.Gate.PatchIf(r.Context(), at, admit.Input{Values: map[string]any{"name": "x"}}, may); !fault.Is(err, fault.Forbidden) {
		t.Errorf("%v", err)
	}
	if _, err := f.api.Gate.DeleteIf(r.Context(), at, may); !fault.Is(err, fault.Forbidden) {
		t.Errorf("%v", err)
	}
	if got := f.must(200, "GET", destinations+"/"+id, "")["name"]; got != "own" {
		t.Error(got)
	}
}

// shown is what an event of the control plane says, without its documents.
func shown(e map[string]any) string {
	return strings.Join(strings.Fields(fmt.Sprint(strings.TrimPrefix(fmt.Sprint(e["name"]), "ADMINISTRATION_"), " ", e["principal_id"], " ", e["request"], " ", e["resource_kind"], " ", e["members"])), " ")
}

// TestFromChangeToReceiver: who administers, and who may not, is told to the receiver, in order, signed,
// without secrets; also after an outage, and up to the end of the log.
func TestFromChangeToReceiver(t *testing.T) {
	s := newSIEM(t)
	c := whole(t, s)
	defer http.DefaultClient.CloseIdleConnections()
	must := func(token string, want int, method, path, body string) map[string]any {
		t.Helper()
		status, doc := callAs(t, token, method, c.URL+path, body)
		if status != want {
			t.Fatalf("%s %s: %d %v", method, path, status, doc)
		}
		return doc
	}
	key := must("vera", 200, "GET", ownHook+"/jwks.json", "")["keys"].([]any)[0].(map[string]any)["x"].(string)
	s.key, _ = base64.RawURLEncoding.DecodeString(key)
	id := must("admin", 200, "POST", destinations, fmt.Sprintf(`{"name":"siem","endpoint":%q,"authorization":"Basic c2VjcmV0","log_format":"json"}`, s.URL))["id"].(string)
	c.unwanted(t, func() { must("vera", 403, "GET", destinations, "") }) // before the log is on
	var want []string
	arrived := func(more ...string) {
		t.Helper()
		want = append(want, more...)
		all := func() (list []string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, e := range s.lines {
				list = append(list, shown(e))
			}
			return list
		}
		eventually(t, fmt.Sprint(more), func() bool { return len(all()) >= len(want) })
		if got := all(); !slices.Equal(got, want) {
			t.Fatalf("what arrived is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	const admin, path = " user:mesh-system:admin ", "/v2/audit-log-destinations"
	must("admin", 200, "PATCH", ownHook, fmt.Sprintf(`{"enabled":true,"audit_log_destination_id":%q}`, id))
	arrived("CREATED" + admin + `PATCH /v2/audit-log-webhook audit_log_webhook ["/audit_log_destination_id","/enabled"]`)
	other := must("admin", 200, "POST", destinations, `{"name":"other","endpoint":"https://other.example/","authorization":"s3cret","log_format":"cef"}`)["id"].(string)
	arrived("CREATED" + admin + "POST " + path + ` audit_log_destination ["/authorization","/endpoint","/log_format","/name","/skip_ssl_verification"]`)
	must("vera", 403, "PATCH", ownHook, `{"enabled":false}`)
	arrived("REFUSED_403 user:vera PATCH /v2/audit-log-webhook <nil>")
	must("nobody", 401, "GET", destinations, "")
	arrived("REFUSED_401 GET <nil>")
	s.set(true)
	must("admin", 200, "PATCH", destinations+"/"+other, `{"authorization":"an0ther"}`)
	eventually(t, "inactive", func() bool { return must("admin", 200, "GET", ownHook+"/status", "")["webhook_status"] == "inactive" })
	must("admin", 204, "DELETE", destinations+"/"+other, "")
	must("admin", 400, "PATCH", destinations+"/"+id, `{"endpoint":"none"}`)
	must("admin", 200, "PATCH", ownHook, `{"enabled":false}`)
	c.unwanted(t, func() { must("vera", 403, "GET", destinations, "") })
	third := must("admin", 200, "POST", destinations, `{"name":"third","endpoint":"https://third.example/","authorization":"s3cret","log_format":"cef"}`)["id"].(string)
	must("admin", 409, "DELETE", ownHook, "") // the receiver has not heard yet that the log is off
	must("admin", 409, "PATCH", ownHook, fmt.Sprintf(`{"audit_log_destination_id":%q}`, third))
	must("admin", 409, "PATCH", destinations+"/"+id, `{"endpoint":"https://elsewhere.example/"}`) // it would be in no log
	s.set(false)
	must("admin", 200, "PATCH", ownHook, `{"enabled":true}`) // ends the pause
	arrived(
		"UPDATED"+admin+"PATCH "+path+`/{id} audit_log_destination ["/authorization"]`,
		"DELETED"+admin+"DELETE "+path+`/{id} audit_log_destination ["/authorization","/endpoint","/log_format","/name","/skip_ssl_verification"]`,
		"UPDATED"+admin+`PATCH /v2/audit-log-webhook audit_log_webhook ["/enabled"]`,
		"UPDATED"+admin+`PATCH /v2/audit-log-webhook audit_log_webhook ["/enabled"]`)
	must("admin", 202, "POST", ownHook+"/test", "")
	arrived("TEST" + admin + ownHook + "/test <nil> <nil>")
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bad) > 0 {
		t.Errorf("%v", s.bad)
	}
	for _, e := range s.lines {
		raw, _ := json.Marshal(e)
		for _, secret := range []string{"s3cret", "an0ther", "c2VjcmV0"} {
			if strings.Contains(string(raw), secret) {
				t.Errorf("%s is in %s", secret, raw)
			}
		}
		if e["src"] != "127.0.0.1" || e["api"] != "cloud" || e["org_id"] != "org" || e["event_product"] != "Control-Plane" || e["user_agent"] != "Firefox = 1|2" {
			t.Errorf("%s", raw)
		}
	}
	if after := s.lines[1]["after"]; !strings.Contains(fmt.Sprint(after), `"authorization":"CONCEALED+++"`) {
		t.Errorf("%v", after)
	}
}

package cloudapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/openapi"
)

// nulls says of every member of a body what null means there: the rule by which it is refused, or cleared.
type nulls map[string]string

// cleared is said of members that null leaves empty.
const cleared = ""

// nullBody is a body of this API: whole is one that is accepted, with status.
type nullBody struct {
	method, path, whole string
	status              int
	schemas             []*model.Schema
	means               nulls
	// foreign are members of the schemas that are not written here.
	foreign []string
}

// nullBodies are all bodies of this API but the lists of members of groups, which have one member.
func nullBodies(f *planeFixture) []nullBody {
	one, _ := admittest.Certificate(f.t)
	two, _ := admittest.Certificate(f.t)
	plane, portal := f.plane("shop", cloud.TypeHybrid), portalsPath+"/"+f.created(201, portalsPath, `{"name":"docs"}`)
	receiver := f.created(200, destinations, destination("receiver"))
	dev := portal + "/developers/" + f.created(201, portal+"/developers", `{"email":"ada@example.com","full_name":"Ada"}`)
	pinned := certificatesOf(plane) + "/" + f.pinned(plane, one)
	hook := nulls{"enabled": "is_boolean", fieldDestination: "is_uuid"}
	hooked := `{"enabled":true,"audit_log_destination_id":"` + receiver + `"}`
	receivers := nulls{"name": ruleRequired, "endpoint": ruleRequired, "authorization": ruleRequired, "log_format": ruleRequired, "skip_ssl_verification": "is_boolean"}
	portals := nulls{
		"name": ruleRequired, "display_name": cleared, "description": cleared, "is_public": "is_boolean", "rbac_enabled": "is_boolean",
		"auto_approve_developers": "is_boolean", "auto_approve_applications": "is_boolean", "custom_domain": cleared, "custom_client_domain": cleared, "labels": cleared,
	}
	planes := nulls{
		"name": ruleRequired, "description": cleared, "cluster_type": "is_string", "auth_type": "is_string", "cloud_gateway": "is_boolean", "proxy_urls": cleared, "labels": cleared,
	}
	planesChanged := maps.Clone(planes)
	planesChanged["cluster_type"] = ruleUnknown
	certificates := nulls{"cert": ruleRequired, "title": cleared}
	site := "/portals/" + portal[len(portalsPath)+1:] + siteBase
	const token = `"token":"10000000-0000-4000-8000-000000000000"`
	of := func(of ...*model.Schema) []*model.Schema { return of }
	return []nullBody{
		{"PATCH", portal + "/audit-log-webhook", hooked, 200, of(webhookForm.Kind.Schema), hook, nil},
		{"PATCH", ownHook, hooked, 200, of(webhookForm.Kind.Schema), hook, nil},
		{"PUT", "/v2/audit-log-replay-job", `{"start_at":"2023-11-14T00:00:00Z","end_at":"2023-11-14T01:00:00Z"}`, 202, of(replayForm.Kind.Schema), nulls{"start_at": ruleRequired, "end_at": ruleRequired}, nil},
		{"PATCH", portal + "/authentication-settings", `{"basic_auth_enabled":true}`, 200, of(settingsForm.Kind.Schema), nulls{
			"basic_auth_enabled": "is_boolean", "oidc_auth_enabled": "is_boolean", "saml_auth_enabled": "is_boolean", "oidc_team_mapping_enabled": "is_boolean", "cloud_mapping_enabled": "is_boolean",
		}, nil},
		{"POST", destinations, `{"name":"%d","endpoint":"https://h/","authorization":"x","log_format":"cef"}`, 200, of(cloud.Destinations.Schema), receivers, nil},
		{"PATCH", destinations + "/" + receiver, `{"log_format":"json"}`, 200, of(cloud.Destinations.Schema), receivers, nil},
		{"POST", portalsPath, `{"name":"%d"}`, 201, of(cloud.Portals.Schema), portals, nil},
		{"PATCH", portal, `{"display_name":"a","description":"b","custom_domain":"a.example.com","custom_client_domain":"b.example.com","labels":{"a":"b"}}`, 200, of(cloud.Portals.Schema), portals, nil},
		{"POST", portal + "/developers", `{"email":"%d@example.com","full_name":"A"}`, 201, of(cloud.Developers.Schema, extraForm.Kind.Schema), nulls{
			"email": ruleRequired, "full_name": ruleRequired, "status": "is_string", "password": "is_string", "send_invitation_email": "is_boolean",
		}, nil},
		{"PATCH", dev, `{"status":"approved"}`, 200, of(changeForm.Kind.Schema), nulls{"status": "is_string", "password": "is_string"}, nil},
		{"POST", controlPlanes, `{"name":"p%d"}`, 201, of(cloud.ControlPlanes.Schema), planes, nil},
		{"PATCH", controlPlanes + "/" + plane, `{"description":"a","labels":{"a":"b"},"proxy_urls":[{"host":"h","port":1,"protocol":"p"}]}`, 200, of(cloud.ControlPlanes.Schema), planesChanged, nil},
		{"PUT", pinned, `{"title":"a",` + certGiven(one)[1:], 200, of(cloud.ClientCertificates.Schema), certificates, nil},
		{"POST", certificatesOf(plane), certGiven(two), 201, of(cloud.ClientCertificates.Schema), certificates, nil},
		{"POST", accessTokensPath, `{"name":"%d","role":"viewer"}`, 201, of(cloud.AccessTokens.Schema), nulls{
			"name": ruleRequired, "role": ruleRequired, "control_planes": cleared, "system": "is_boolean", "expires_at": cleared,
		}, nil},
		{"POST", site, `{"email":"%d@example.net","full_name":"A"}`, 201, of(cloud.Developers.Schema), nulls{"email": ruleRequired, "full_name": ruleRequired}, []string{"status"}},
		{"POST", site + "/verify-email", `{` + token + `}`, 404, of(verificationForm.Kind.Schema), nulls{"token": ruleRequired}, nil},
		{"POST", site + "/reset-password", `{` + token + `,"password":"correct horse"}`, 404, of(resetForm.Kind.Schema), nulls{"token": ruleRequired, "password": ruleRequired}, nil},
		{"POST", site + "/authenticate", `{"username":"a","password":"b"}`, 401, of(loginForm.Kind.Schema), nulls{"username": ruleRequired, "password": ruleRequired}, nil},
	}
}

// TestNullIsNeverIgnored: null as any member of any body empties that member, or is refused by the rule of its
// type. Who sends it wants something; 200 for a change that was not made would hide that.
func TestNullIsNeverIgnored(t *testing.T) {
	f := setupPlanes(t)
	n := 0
	for _, b := range nullBodies(f) {
		whole := func() (given map[string]any) {
			n++
			text := b.whole
			if slices.Contains([]byte(text), '%') {
				text = fmt.Sprintf(text, n)
			}
			if err := json.Unmarshal([]byte(text), &given); err != nil {
				t.Fatal(err)
			}
			return given
		}
		send := func(given map[string]any) (int, map[string]any) {
			body, err := json.Marshal(given)
			if err != nil {
				t.Fatal(err)
			}
			return f.do(b.method, b.path, string(body))
		}
		var members []string
		for _, s := range b.schemas {
			described := kinds.Patch(s).Properties
			for i := range s.Fields {
				field := &s.Fields[i]
				if field.Meta || field.Hidden || slices.Contains(b.foreign, field.Name) {
					continue
				}
				members = append(members, field.Name)
				if nullable := slices.Contains(described[field.Name].Type, openapi.Null); nullable != (b.means[field.Name] == cleared) {
					t.Errorf("%s %s: that %s may be null is described: %t", b.method, b.path, field.Name, nullable)
				}
			}
		}
		slices.Sort(members)
		if named := slices.Sorted(maps.Keys(b.means)); !slices.Equal(named, members) {
			t.Errorf("%s %s: the table says what null means of %q, and the members are %q", b.method, b.path, named, members)
		}
		complete := func() {
			t.Helper()
			if status, doc := send(whole()); status != b.status {
				t.Errorf("%s %s: the whole body is answered %d %v, want %d", b.method, b.path, status, doc, b.status)
			}
		}
		if b.method == http.MethodPatch {
			complete() // so that there is something which null could change
		}
		for _, member := range members {
			given := map[string]any{}
			if b.method != http.MethodPatch {
				given = whole()
			}
			given[member] = nil
			status, doc := send(given)
			if rule := b.means[member]; rule != cleared {
				if got := fmt.Sprint(status, doc["invalid_parameters"]); status != 400 || !onlyInvalid(doc, member, rule) {
					t.Errorf("%s %s: null as %s is answered %s, want 400 by the rule %s", b.method, b.path, member, got, rule)
				}
				continue
			}
			if item, inside := doc["item"].(map[string]any); inside {
				doc = item
			}
			if v := reflect.ValueOf(doc[member]); status != b.status || v.IsValid() && v.Len() > 0 {
				t.Errorf("%s %s: null as %s is answered %d %v", b.method, b.path, member, status, doc)
			}
		}
	}
}

// onlyInvalid reports whether a document says of one member alone that it is invalid, by a rule.
func onlyInvalid(doc map[string]any, member, rule string) bool {
	list, _ := doc["invalid_parameters"].([]any)
	if len(list) != 1 {
		return false
	}
	of, _ := list[0].(map[string]any)
	return of["field"] == member && of["rule"] == rule
}

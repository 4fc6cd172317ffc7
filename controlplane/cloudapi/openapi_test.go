package cloudapi

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/openapi/openapitest"
)

// TestOpenAPI: the document is valid, has every endpoint, and what resources of each sort are answered
// with conforms to it.
func TestOpenAPI(t *testing.T) {
	f := setupPlanes(t)
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, pathDocument, nil))
	contract := openapitest.Read(t, w.Body.Bytes(), f.api.everyEndpoint())
	contract.HasEveryRoute(t, 5)
	contract.Unknown = []string{}
	f.contract = contract
	destination := f.created(http.StatusOK, "/v2/audit-log-destinations", `{"name":"siem","endpoint":"https://siem.example/","authorization":"x","log_format":"cef"}`)
	f.created(http.StatusCreated, "/v2/personal-access-tokens", `{"name":"ci","role":"viewer"}`)
	portal := "/v2/portals/" + f.created(http.StatusCreated, "/v2/portals", `{"name":"docs","labels":{"a":"b"}}`)
	developer := portal + "/developers/" + f.created(http.StatusCreated, portal+"/developers", `{"email":"ada@example.com","full_name":"Ada","password":"correct horse"}`)
	f.created(http.StatusCreated, developer+"/verification-token", "")
	f.expects(http.StatusOK, http.MethodPatch, developer, `{"status":"revoked"}`)
	f.expects(http.StatusOK, http.MethodPatch, portal+"/audit-log-webhook", `{"enabled":true,"audit_log_destination_id":"`+destination+`"}`)
	f.expects(http.StatusAccepted, http.MethodPost, portal+"/audit-log-webhook/test", "")
	f.expects(http.StatusOK, http.MethodPatch, "/v2/audit-log-webhook", `{"enabled":true,"audit_log_destination_id":"`+destination+`"}`)
	f.expects(http.StatusAccepted, http.MethodPost, "/v2/audit-log-webhook/test", "")
	f.expects(http.StatusConflict, http.MethodDelete, "/v2/audit-log-webhook", "")
	group := controlPlanes + "/" + f.plane("group", "CLUSTER_TYPE_CONTROL_PLANE_GROUP")
	member := f.plane("member", "CLUSTER_TYPE_HYBRID")
	f.expects(http.StatusNoContent, http.MethodPost, group+"/group-memberships/add", `{"members":[{"id":"`+member+`"}]}`)
	f.expects(http.StatusBadRequest, http.MethodPost, group+"/group-memberships/add", `{}`)
	f.expects(http.StatusCreated, http.MethodPost, controlPlanes+"/"+member+"/core-entities/services", `{"name":"s","host":"s.example"}`)
	cert, _ := admittest.Certificate(t)
	pinned := certificatesOf(member) + "/" + f.pinned(member, cert)
	f.expects(http.StatusOK, http.MethodPut, pinned, certGiven(cert))
	for _, path := range []string{
		"/v2/audit-log-destinations", "/v2/personal-access-tokens", "/v2/portals", portal, portal + "/developers", developer, portal + "/authentication-settings",
		portal + "/audit-log-webhook", portal + "/audit-log-webhook/status", portal + "/audit-log-replay-job", "/v2/audit-log-webhook/jwks.json",
		"/v2/audit-log-webhook", "/v2/audit-log-webhook/status", "/v2/audit-log-replay-job", "/v2/organizations/me", olderPath,
		controlPlanes, group, group + "/group-memberships", group + "/group-member-status", group + "/group-status", group + "/nodes", group + "/expected-config-hash",
		controlPlanes + "/" + member + "/core-entities/services", certificatesOf(member), pinned,
	} {
		f.expects(http.StatusOK, http.MethodGet, path, "")
	}
	f.expects(http.StatusOK, http.MethodPatch, portal, `{"description":"all"}`)
	cursor := base64.RawURLEncoding.EncodeToString([]byte(member))
	for _, path := range []string{
		"/v2/audit-log-destinations?page[size]=5&page[after]=" + cursor, "/v2/audit-log-destinations?page[before]=" + cursor,
		group + "/group-memberships?page[after]=" + cursor, "/v2/portals?filter[name][contains]=d&sort=name", olderPath + "?size=100&page=1",
		controlPlanes + "?filter[name][eq]=member", controlPlanes + "/" + member + "/core-entities/services?filter[name]=s&size=1", olderPath + "/" + member + "/services?filter[name][contains]=s",
	} {
		f.expects(http.StatusOK, http.MethodGet, path, "")
	}
	f.expects(http.StatusNotFound, http.MethodGet, "/v2/portals/"+member, "")
	f.expects(http.StatusBadRequest, http.MethodGet, "/v2/portals?sort=x", "")
}

// created sends a creation and returns the id of what was made, if it has one.
func (f *planeFixture) created(want int, path, body string) string {
	f.t.Helper()
	id, _ := f.expects(want, http.MethodPost, path, body)["id"].(string)
	return id
}

// TestOfferedMembers: no member that the document offers in a body is refused as unknown, and no body takes
// more or fewer control planes than it says.
func TestOfferedMembers(t *testing.T) {
	f := setupPlanes(t)
	portal := f.created(http.StatusCreated, "/v2/portals", `{"name":"docs"}`)
	developer := f.created(http.StatusCreated, "/v2/portals/"+portal+"/developers", `{"email":"ada@example.com","full_name":"Ada"}`)
	destination := f.created(http.StatusOK, "/v2/audit-log-destinations", `{"name":"siem","endpoint":"https://siem.example/","authorization":"x","log_format":"cef"}`)
	member, group := f.plane("member", "CLUSTER_TYPE_HYBRID"), f.plane("group", "CLUSTER_TYPE_CONTROL_PLANE_GROUP")
	cert, _ := admittest.Certificate(t)
	pinned := f.pinned(member, cert)
	components := f.api.components()
	tried := 0
	for _, e := range f.api.everyEndpoint() {
		schema := components[e.Contract.Body]
		if schema == nil || f.api.isEntity(e.Pattern) {
			continue
		}
		id := member
		switch {
		case strings.Contains(e.Pattern, "/group-"):
			id = group
		case strings.Contains(e.Pattern, "/audit-log-destinations"):
			id = destination
		}
		path := strings.NewReplacer("{"+pathPortal+"}", portal, "{"+pathDeveloper+"}", developer, "{certificateId}", pinned, "{"+pathID+"}", id).Replace(e.Pattern)
		for name := range schema.Properties {
			tried++
			status, doc := f.do(e.Method, path, `{"`+name+`":{}}`)
			if status == http.StatusNotFound && !strings.HasPrefix(path, siteBase) || strings.Contains(fmt.Sprint(doc), ruleUnknown) {
				t.Errorf("%s %s with %s: %d %v", e.Method, e.Pattern, name, status, doc)
			}
		}
		if list := schema.Properties[fieldMembers]; list != nil {
			f.takesAsMany(e.Method, path, member, int(*list.MinItems), int(*list.MaxItems))
		}
	}
	if tried < 50 {
		t.Errorf("%d members were tried", tried)
	}
}

// takesAsMany checks that a body may name control planes from so many to so many.
func (f *planeFixture) takesAsMany(method, path, member string, least, most int) {
	f.t.Helper()
	for n := range most + 2 {
		_, doc := f.do(method, path, `{"members":[`+strings.TrimSuffix(strings.Repeat(`{"id":"`+member+`"},`, n), ",")+`]}`)
		said := fmt.Sprint(doc)
		if takes := !strings.Contains(said, ruleMinItems) && !strings.Contains(said, ruleMaxItems); takes != (n >= least && n <= most) {
			f.t.Errorf("%s %s with %d members: %v", method, path, n, doc)
		}
	}
}

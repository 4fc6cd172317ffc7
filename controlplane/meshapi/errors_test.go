package meshapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// seeded returns an API with mesh m, dataplane web-1, ticket t and secret s.
func seeded(t testing.TB, change ...func(*Options)) *api {
	t.Helper()
	a := newAPI(t, change...)
	a.put(t, "/meshes/m", `{"type":"Mesh","name":"m"}`)
	for _, name := range []string{"web-1", "away"} {
		a.put(t, "/meshes/m/dataplanes/"+name, dataplane("m", name, "web"))
	}
	a.put(t, "/meshes/m/tickets/t", goodTicket("t"))
	a.put(t, "/meshes/m/passes/p", `{"type":"Pass","mesh":"m","name":"p"}`)
	a.put(t, "/global-secrets/g", `{"type":"GlobalSecret","name":"g"}`)
	a.put(t, "/meshes/m/secrets/s", `{"type":"Secret","mesh":"m","name":"s"}`)
	return a
}

func dataplane(scope, name, service string) string {
	return `{"type":"Dataplane","mesh":"` + scope + `","name":"` + name + `","networking":{"address":"10.0.0.1","inbound":[{"port":80,"tags":{"mesh.io/service":"` + service + `"}}]}}`
}

func goodTicket(name string) string {
	return `{"type":"Ticket","mesh":"m","name":"` + name + `","sources":[{"match":{"mesh.io/service":"*"}}],"conf":{"price":1}}`
}

// expected returns the document of an error; violations are pairs of field and reason.
func expected(status int, title, detail string, violations ...string) map[string]any {
	doc := map[string]any{"type": "/std-errors", "status": float64(status), "title": title, "detail": detail, "details": detail}
	var parameters, causes []any
	for i := 0; i < len(violations); i += 2 {
		parameters = append(parameters, map[string]any{"field": violations[i], "reason": violations[i+1]})
		causes = append(causes, map[string]any{"field": violations[i], "message": violations[i+1]})
	}
	if parameters != nil {
		doc["invalid_parameters"], doc["causes"] = parameters, causes
	}
	return doc
}

func check(t *testing.T, rec *httptest.ResponseRecorder, want map[string]any) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatalf("%d %q: %v", rec.Code, rec.Body, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if float64(rec.Code) != want["status"] || rec.Header().Get("Content-Type") != mediaJSON {
		t.Errorf("status %d, type %s", rec.Code, rec.Header().Get("Content-Type"))
	}
}

// TestErrors checks every row of the table of errors.
func TestErrors(t *testing.T) {
	const (
		retrieve = "Could not retrieve a resource"
		list     = "Could not retrieve resources"
		process  = "Could not process a resource"
		invalid  = "Resource is not valid"
		missing  = "Not found"
	)
	path := "/meshes/m/tickets/t"
	for _, test := range []struct {
		name, method, path, body string
		want                     map[string]any
	}{
		{"get unknown resource", "GET", "/meshes/m/tickets/none", "", expected(404, retrieve, missing)},
		{"get unknown mesh", "GET", "/meshes/none", "", expected(404, retrieve, missing)},
		{"get unknown global resource", "GET", "/global-secrets/none", "", expected(404, retrieve, missing)},
		{"get unknown overview", "GET", "/meshes/m/dataplanes+insights/none", "", expected(404, retrieve, missing)},
		{"delete unknown", "DELETE", "/meshes/m/tickets/none", "", expected(404, "Could not delete a resource", missing)},
		{"delete unknown mesh", "DELETE", "/meshes/none", "", expected(404, "Could not delete a resource", missing)},
		{"get in unknown mesh", "GET", "/meshes/none/tickets/t", "", expected(404, "Failed to retrieve Mesh", missing)},
		{"list of unknown mesh", "GET", "/meshes/none/tickets", "", expected(404, "Failed to retrieve Mesh", missing)},
		{"delete in unknown mesh", "DELETE", "/meshes/none/tickets/t", "", expected(404, "Failed to retrieve Mesh", missing)},
		{"put in unknown mesh, whatever the body", "PUT", "/meshes/none/tickets/t", "{", expected(404, "Failed to retrieve Mesh", missing)},
		{"dump of unknown dataplane", "GET", "/meshes/m/dataplanes/none/xds", "", expected(404, "Could not get dataplane resource", missing)},
		{"dump in unknown mesh", "GET", "/meshes/none/dataplanes/web-1/xds", "", expected(404, "Could not get dataplane resource", missing)},
		{"another operation", "GET", "/meshes/m/dataplanes/web-1/reboot", "", expected(404, "Could not execute admin operation", missing)},
		{"policies of unknown dataplane", "GET", "/meshes/m/dataplanes/none/policies", "", expected(404, "Could not get MatchedPolicies", missing)},
		{"policies in unknown mesh", "GET", "/meshes/none/dataplanes/web-1/policies", "", expected(404, "Could not build MeshContext", missing)},
		{"rules of unknown dataplane", "GET", "/meshes/m/dataplanes/none/rules", "", expected(404, "Could not get MatchedPolicies", missing)},
		{"rules in unknown mesh", "GET", "/meshes/none/dataplanes/web-1/rules", "", expected(404, "Could not build MeshContext", missing)},
		{"dataplanes of a policy in unknown mesh", "GET", "/meshes/none/tickets/t/dataplanes", "", expected(404, "Could not list Dataplanes", missing)},
		{"dataplanes of a gateway", "GET", "/meshes/m/meshgateways/none/dataplanes", "", expected(404, "Could not find MeshGateway", missing)},
		{"dataplanes of a gateway's route", "GET", "/meshes/m/meshgatewayroutes/none/dataplanes", "", expected(404, "Could not find MeshGatewayRoute", missing)},
		{"dump of an ingress", "GET", "/zoneingresses/none/xds", "", expected(404, "Could not get zone ingress resource", missing)},
		{"clusters of an ingress", "GET", "/zoneingresses/none/clusters", "", expected(404, "Could not get zone ingress resource", missing)},
		{"figures of an egress", "GET", "/zoneegresses/none/stats", "", expected(404, "Could not get zone ingress resource", missing)},
		{"another operation of an egress", "GET", "/zoneegresses/none/reboot", "", expected(404, "Could not execute admin operation", missing)},
		{"empty body", "PUT", path, "", expected(400, "Bad Request", `invalid Ticket object: "unexpected end of JSON input"`)},
		{"malformed JSON", "PUT", path, `{"type":"Ticket",}`, expected(400, "Bad Request", `invalid Ticket object: "invalid character '}' looking for beginning of object key string"`)},
		{"wrong JSON type", "PUT", path, `{"type":"Ticket","mesh":"m","name":"t","conf":[]}`, expected(400, "Bad Request", `invalid Ticket object: "conf: expected object, got array"`)},
		{"bad base64", "PUT", "/meshes/m/secrets/s", `{"type":"Secret","mesh":"m","name":"s","data":"*"}`, expected(400, "Bad Request", `invalid Secret object: "illegal base64 data at input byte 0"`)},
		{"bad duration", "PUT", path, `{"type":"Ticket","mesh":"m","name":"t","conf":{"timeout":"x"}}`, expected(400, "Bad Request", `invalid Ticket object: "conf.timeout: time: invalid duration \"x\""`)},
		{"bad time", "PUT", path, `{"type":"Ticket","mesh":"m","name":"t","creationTime":"bad"}`, expected(400, "Bad Request", `invalid Ticket object: "parsing time \"bad\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"bad\" as \"2006\""`)},
		{"spec violation, before names are looked at", "PUT", path, `{"type":"Mesh","mesh":"x","name":"y"}`, expected(400, process, invalid, "sources", "must have at least one element", "conf", "has to be defined")},
		{"other name", "PUT", path, goodTicket("u"), expected(400, process, invalid, "name", "name from the URL has to be the same as in body")},
		{"other type", "PUT", path, strings.Replace(goodTicket("t"), "Ticket", "Mesh", 1), expected(400, process, invalid, "type", "type from the URL has to be the same as in body")},
		{"no type", "PUT", path, strings.Replace(goodTicket("t"), `"type":"Ticket",`, "", 1), expected(400, process, invalid, "type", "type from the URL has to be the same as in body")},
		{"other mesh", "PUT", path, strings.Replace(goodTicket("t"), `"m"`, `"n"`, 1), expected(400, process, invalid, "mesh", "mesh from the URL has to be the same as in body")},
		{"no mesh", "PUT", path, strings.Replace(goodTicket("t"), `"mesh":"m",`, "", 1), expected(400, process, invalid, "mesh", "mesh from the URL has to be the same as in body", "mesh", "cannot be empty")},
		{"size not an int", "GET", "/meshes?size=1.5", "", expected(400, list, "Invalid page size", "size", "invalid format")},
		{"size too large", "GET", "/meshes?size=1001", "", expected(400, list, "Invalid page size", "size", "invalid page size of 1001. Maximum page size is 1000")},
		{"size negative", "GET", "/meshes?size=-1", "", expected(400, list, "Invalid page size", "size", "invalid page size of -1. It must not be negative")},
		{"offset not an int", "GET", "/tickets?offset=a", "", expected(400, list, "Invalid offset", "offset", "Invalid format")},
		{"offset negative", "GET", "/dataplanes+insights?offset=-1", "", expected(400, list, "Invalid offset", "offset", "Invalid format")},
		{"bad gateway filter", "GET", "/dataplanes?gateway=foo", "", expected(400, list, invalid, "/dataplanes.gateway", "shoud use `true`, `false`, 'builtin' or 'delegated' instead of foo")},
		{"bad format", "GET", "/meshes/m?format=foo", "", expected(400, "invalid format", invalid, "", `"format" must be one of ["k8s", "kubernetes", "universal"]`)},
		{"mesh name too long", "PUT", "/meshes/" + strings.Repeat("m", 64), `{"type":"Mesh","name":"` + strings.Repeat("m", 64) + `"}`, expected(400, "Could not create a resource", invalid, "name", "cannot be longer than 63 characters")},
		{"write of a read-only kind", "PUT", "/censuses/c", "{}", expected(405, "Method not allowed", textReadOnly)},
		{"broken insight", "GET", "/meshes/m/dataplanes+insights/broken", "", expected(500, retrieve, "Internal Server Error")},
		{"broken insight in a list", "GET", "/dataplanes+insights", "", expected(500, list, "Internal Server Error")},
		{"document that is no JSON", "GET", "/meshes/m/dataplanes+insights/nan", "", expected(500, "Could not retrieve a resource", "Internal Server Error")},
		{"proxy away", "GET", "/meshes/m/dataplanes/away/xds", "", expected(503, "Could not execute admin operation", "the proxy is not connected")},
		{"dump fails", "GET", "/meshes/m/dataplanes/broken/xds", "", expected(500, "Could not execute admin operation", "Internal Server Error")},
		{"body too large", "PUT", path, `{"type":"` + strings.Repeat("a", MaxBody) + `"}`, expected(413, "Bad Request", "the body is larger than 1048576 bytes")},
		{"token body too large", "POST", "/tokens/dataplane", `{"mesh":"` + strings.Repeat("a", MaxBody) + `"}`, expected(413, "Bad Request", "the body is larger than 1048576 bytes")},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := seeded(t)
			for _, name := range []string{"broken", "nan"} {
				a.put(t, "/meshes/m/dataplanes/"+name, dataplane("m", name, "web"))
			}
			check(t, request(a.handler, test.method, test.path, test.body, "Content-Type", mediaJSON), test.want)
		})
	}
}

// TestFaults checks the answers to faults of the store and the writer.
func TestFaults(t *testing.T) {
	violation := fault.Violated([]fault.Violation{{Path: "mtls.enabledBackend", Message: "Changing CA is forbidden"}})
	member := fault.New(fault.Forbidden, "dataplane cannot be a member of mesh %q", "m")
	for _, test := range []struct {
		name   string
		err    error
		put    map[string]any
		remove map[string]any
	}{
		{
			"another resource forbids it", violation,
			expected(400, "Could not update a resource", "Resource is not valid", "mtls.enabledBackend", "Changing CA is forbidden"),
			expected(400, "Could not delete a resource", "Resource is not valid", "mtls.enabledBackend", "Changing CA is forbidden"),
		},
		{"a detail alone", fault.New(fault.Invalid, "a detail"), expected(400, "Could not update a resource", "a detail"), expected(400, "Could not delete a resource", "a detail")},
		{"still referenced", fault.New(fault.Referenced, "in use"), expected(400, "Could not update a resource", "in use"), expected(400, "Could not delete a resource", "in use")},
		{"compare-and-swap lost", fault.New(fault.Conflict, "written by others"), expected(409, "Conflict", "written by others"), expected(409, "Conflict", "written by others")},
		{"exists", fault.New(fault.Exists, "taken"), expected(409, "Conflict", "taken"), expected(409, "Conflict", "taken")},
		{"not a member", member, expected(403, "Access Denied", `dataplane cannot be a member of mesh "m"`), expected(403, "Access Denied", `dataplane cannot be a member of mesh "m"`)},
		{"mesh gone meanwhile", fault.New(fault.NotFound, "x").With(admit.Missing{Kind: mesh.Meshes}), expected(404, "Failed to retrieve Mesh", "Not found"), expected(404, "Failed to retrieve Mesh", "Not found")},
		{"gone meanwhile", fault.New(fault.NotFound, "x").With(admit.Missing{Kind: tickets}), expected(404, "Could not update a resource", "Not found"), expected(404, "Could not delete a resource", "Not found")},
		{"not published", fault.New(fault.Unavailable, "try again"), expected(503, "Could not update a resource", "try again"), expected(503, "Could not delete a resource", "try again")},
		{"unexpected", errors.New("disk full at /var"), expected(500, "Could not update a resource", "Internal Server Error"), expected(500, "Could not delete a resource", "Internal Server Error")},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := seeded(t)
			a.writer.put, a.writer.remove = test.err, test.err
			check(t, request(a.handler, "PUT", "/meshes/m/tickets/t", goodTicket("t"), "Content-Type", mediaJSON), test.put)
			check(t, request(a.handler, "DELETE", "/meshes/m/tickets/t", ""), test.remove)
			test.put["title"] = strings.Replace(test.put["title"].(string), "update", "create", 1)
			check(t, request(a.handler, "PUT", "/meshes/m/tickets/new", goodTicket("new"), "Content-Type", mediaJSON), test.put)
		})
	}
}

// TestConstraints: a dataplane that the constraints of its mesh refuse is answered with the
// sentence that names its tags, at its creation and at an update, and is not stored.
func TestConstraints(t *testing.T) {
	a := newAPI(t)
	a.put(t, "/meshes/m", `{"type":"Mesh","name":"m","constraints":{"dataplaneProxy":{"requirements":[{"tags":{"team":"a"}},{"tags":{"team":"b"}}],"restrictions":[{"tags":{"legacy":"*"}}]}}}`)
	of := func(tags string) string {
		return strings.Replace(dataplane("m", "web-1", "web"), `"web"}`, `"web"`+tags+`}`, 1)
	}
	put := func(tags string) *httptest.ResponseRecorder {
		return request(a.handler, "PUT", "/meshes/m/dataplanes/web-1", of(tags), "Content-Type", mediaJSON)
	}
	const member = `dataplane cannot be a member of mesh "m" because its tags `
	refused := func(title, text string) map[string]any {
		return expected(400, title, "Resource is not valid", "networking", member+text)
	}
	check(t, put(`,"team":"c"`), refused("Could not create a resource", `"mesh.io/service=web,team=c" does not fulfill any requirements defined on the Mesh`))
	check(t, put(`,"team":"a","legacy":"1"`), refused("Could not create a resource", `"legacy=1,mesh.io/service=web,team=a" matches restricted tags`))
	if rec := put(`,"team":"b"`); rec.Code != http.StatusCreated {
		t.Fatalf("a member: %d %s", rec.Code, rec.Body)
	}
	check(t, put(""), refused("Could not update a resource", `"mesh.io/service=web" does not fulfill any requirements defined on the Mesh`))
	if rec := request(a.handler, "GET", "/meshes/m/dataplanes/web-1", ""); !strings.Contains(rec.Body.String(), `"team": "b"`) {
		t.Errorf("what is stored: %s", rec.Body)
	}
}

// TestMeshGoesMeanwhile deletes the mesh between its look-up and the write.
func TestMeshGoesMeanwhile(t *testing.T) {
	a := newAPI(t)
	a.put(t, "/meshes/m", `{"type":"Mesh","name":"m"}`)
	a.writer.beforePut = func() {
		if rec := request(a.handler, "DELETE", "/meshes/m", ""); rec.Code != http.StatusOK {
			t.Errorf("delete: %d %s", rec.Code, rec.Body)
		}
	}
	rec := request(a.handler, "PUT", "/meshes/m/tickets/t", goodTicket("t"), "Content-Type", mediaJSON)
	check(t, rec, expected(404, "Failed to retrieve Mesh", "Not found"))
	if rec.Header().Get(HeaderRevision) != "" {
		t.Error("a write that failed has a revision")
	}
}

// TestPublicationFails: if only the publication of a write fails, the answer has its revision
// beside the error.
func TestPublicationFails(t *testing.T) {
	a := seeded(t)
	a.writer.Writer = unpublished{a.writer.Writer}
	want := a.store.Revision()
	for _, send := range []func() *httptest.ResponseRecorder{
		func() *httptest.ResponseRecorder {
			return request(a.handler, "PUT", "/meshes/m/tickets/t", goodTicket("t"), "Content-Type", mediaJSON)
		},
		func() *httptest.ResponseRecorder { return request(a.handler, "DELETE", "/meshes/m/tickets/t", "") },
	} {
		want++
		rec := send()
		if rec.Code != http.StatusServiceUnavailable || rec.Header().Get(HeaderRevision) != strconv.FormatUint(want, 10) {
			t.Errorf("%d, revision %q, want %d", rec.Code, rec.Header().Get(HeaderRevision), want)
		}
	}
}

// unpublished commits, and then reports that not everybody knows.
type unpublished struct{ Writer }

func (u unpublished) PutDocumentIf(ctx context.Context, k *model.Kind, scope, name string, spec any, allowed admit.Allowed) (admit.Outcome, bool, error) {
	out, created, err := u.Writer.PutDocumentIf(ctx, k, scope, name, spec, allowed)
	return out, created, errors.Join(err, fault.New(fault.Unavailable, "not known everywhere"))
}

func (u unpublished) DeleteDocumentIf(ctx context.Context, k *model.Kind, scope, name string, allowed admit.Allowed) (store.Commit, error) {
	commit, err := u.Writer.DeleteDocumentIf(ctx, k, scope, name, allowed)
	return commit, errors.Join(err, fault.New(fault.Unavailable, "not known everywhere"))
}

// TestLog: each request has one line in the log, with pattern and revision, and without
// anything that was sent.
func TestLog(t *testing.T) {
	var log bytes.Buffer
	h := httpkit.Observe(seeded(t).handler, slog.New(slog.NewTextHandler(&log, nil)))
	request(h, "PUT", "/meshes/m/secrets/s", `{"type":"Secret","mesh":"m","name":"s","data":"Y2FuYXJ5"}`, "Content-Type", mediaJSON)
	request(h, "GET", "/meshes/m/dataplanes/none", "")
	request(h, "PUT", "/meshes/m/secrets/s", `{"type":"Secret","data":"Y2FuYXJ5*"}`, "Content-Type", mediaJSON)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, want := range []string{
		`pattern=/meshes/{mesh}/secrets/{name} status=200`, `pattern=/meshes/{mesh}/dataplanes/{name} status=404`, `pattern=/meshes/{mesh}/secrets/{name} status=400`,
	} {
		if !strings.Contains(lines[i], want) || strings.Contains(lines[i], "Y2FuYXJ5") {
			t.Errorf("%s lacks %s", lines[i], want)
		}
	}
	if !strings.Contains(lines[0], "revision=") || !strings.Contains(lines[1], "code=not_found") {
		t.Error(log.String())
	}
}

// TestTokenFaults checks the answers to faults of the issuer of dataplane tokens.
func TestTokenFaults(t *testing.T) {
	const noKey = `there is no signing key with KID 1. Secret of name "dataplane-token-signing-key-x-1" in mesh "x" is not found. If signing key was rotated, regenerate the token`
	for _, test := range []struct {
		name string
		err  error
		want map[string]any
	}{
		{
			"violations", fault.Violated([]fault.Violation{{Path: "mesh", Message: "cannot be empty"}, {Path: "type", Message: "foo is not a valid proxy type"}}),
			expected(400, "Invalid request", "Resource is not valid", "mesh", "cannot be empty", "type", "foo is not a valid proxy type"),
		},
		{"no signing key", fault.New(fault.NotFound, "%s", noKey), expected(404, "Signing Key not found", noKey)},
		{"unusable signing key", errors.New("bad PEM"), expected(500, "Could not issue a token", "Internal Server Error")},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAPI(t)
			a.mint.err = test.err
			check(t, request(a.handler, "POST", "/tokens/dataplane", `{}`, "Content-Type", mediaJSON), test.want)
		})
	}
}

// TestBrokenUpload: a document whose upload breaks off is not stored.
func TestBrokenUpload(t *testing.T) {
	a := newAPI(t)
	r := httptest.NewRequest(http.MethodPut, "http://localhost/meshes/m", failing{})
	r.Header.Set("Content-Type", mediaJSON)
	rec := httptest.NewRecorder()
	a.handler.ServeHTTP(rec, r)
	check(t, rec, expected(400, "Bad Request", "the body broke off"))
	if a.store.Revision() != 0 {
		t.Error("something was stored")
	}
}

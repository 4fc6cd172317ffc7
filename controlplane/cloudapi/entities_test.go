package cloudapi

import (
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
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// raw sends a request and returns status and body as they are.
func (f *planeFixture) raw(token, method, target, body string) (int, string) {
	f.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// entities is the path of the entities of a control plane.
func entities(id string) string { return controlPlanes + "/" + id + "/core-entities" }

// has counts what a control plane shows of a collection.
func (f *planeFixture) has(id, collection string) int {
	f.t.Helper()
	status, body := f.raw("admin", "GET", entities(id)+collection, "")
	var doc struct{ Data []json.RawMessage }
	if err := json.Unmarshal([]byte(body), &doc); err != nil || status != http.StatusOK {
		f.t.Fatalf("%s: %d %s", collection, status, body)
	}
	return len(doc.Data)
}

// TestEntitiesBelongToTheirControlPlane: each control plane has its own, by every path.
func TestEntitiesBelongToTheirControlPlane(t *testing.T) {
	f := setupPlanes(t)
	a, b := f.plane("aa", cloud.TypeHybrid), f.plane("bb", cloud.TypeHybrid)
	const svc, route = "10000000-0000-4000-8000-000000000001", "10000000-0000-4000-8000-000000000002"
	for _, call := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", entities(a) + "/services", `{"name":"s","host":"h.test"}`, 201},
		{"PUT", entities(a) + "/services/" + svc, `{"name":"t","host":"h.test"}`, 200},
		{"PUT", entities(a) + "/routes/" + route, `{"name":"r","paths":["/r"],"service":{"id":"` + svc + `"}}`, 200},
		{"GET", entities(a) + "/routes/" + route + "/service", "", 200},
		{"GET", entities(a) + "/services/t", "", 200},
		{"GET", entities(b) + "/services/t", "", 404},
		{"GET", entities(b) + "/services/" + svc + "/routes", "", 404},
		{"PUT", entities(b) + "/routes/" + route, `{"name":"r","paths":["/r"],"service":{"id":"` + svc + `"}}`, 400},
		{"PATCH", entities(b) + "/services/" + svc, `{"retries":1}`, 404},
		{"DELETE", entities(b) + "/services/" + svc, "", 204}, // of which there is none
		{"POST", entities(cloud.DefaultID) + "/services", `{"name":"s","host":"h.test"}`, 201},
		{"POST", entities(a) + "/services", `{"name":"s","host":"h.test"}`, 409},
		{"POST", entities(a) + "/nonsense", `{}`, 404},
		{"POST", entities("10000000-0000-4000-8000-000000000009") + "/services", `{"host":"h.test"}`, 404},
		{"POST", entities(a) + "/schemas/services/validate", `{"host":"h.test"}`, 200},
		{"GET", entities(a) + "/schemas/plugins/oauth2", "", 200},
		{"GET", entities(a) + "/status", "", 404},
		{"DELETE", entities(a) + "/services/s", "", 204},
	} {
		if status, body := f.raw("admin", call.method, call.path, call.body); status != call.want {
			t.Errorf("%s %s: %d %s, want %d", call.method, call.path, status, body, call.want)
		}
	}
	for plane, want := range map[string]int{a: 1, b: 0, cloud.DefaultID: 1} {
		if got := f.has(plane, "/services"); got != want {
			t.Errorf("%s has %d services, want %d", plane, got, want)
		}
	}
	for query, want := range map[string]int{"?filter[name]=t": 1, "?filter[name][eq]=x": 0, "?filter[name][contains]=t": 1, "?size=1": 1} {
		if got := f.has(a, "/services"+query); got != want {
			t.Errorf("%s: %d services, want %d", query, got, want)
		}
	}
	if err := f.store.View(t.Context(), func(r store.Reader) error {
		_, err := r.Get(gateway.Services, model.DefaultControlPlane, svc)
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("the first control plane has the service of another one: %v", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestNextPageOfEntities: the path of the next page leads there.
func TestNextPageOfEntities(t *testing.T) {
	f := setupPlanes(t)
	a := f.plane("aa", cloud.TypeHybrid)
	for i := range 3 {
		if status, body := f.raw("admin", "POST", entities(a)+"/consumers", fmt.Sprintf(`{"username":"c%d"}`, i)); status != 201 {
			t.Fatal(status, body)
		}
	}
	next, n := entities(a)+"/consumers?size=2", 0
	for next != "" {
		status, body := f.raw("admin", "GET", next, "")
		var doc struct {
			Data []json.RawMessage
			Next string
		}
		if err := json.Unmarshal([]byte(body), &doc); err != nil || status != 200 {
			t.Fatal(status, body)
		}
		n, next = n+len(doc.Data), doc.Next
	}
	if n != 3 {
		t.Errorf("the pages have %d consumers", n)
	}
}

// TestGroupsAreReadOnly: whatever is written to a group is refused, by the API and by the gate.
func TestGroupsAreReadOnly(t *testing.T) {
	f := setupPlanes(t)
	group := f.plane("group", cloud.TypeGroup)
	for _, call := range [][2]string{
		{"POST", "/services"}, {"PUT", "/services/x"}, {"PATCH", "/services/x"}, {"DELETE", "/services/x"},
	} {
		status, body := f.raw("admin", call[0], entities(group)+call[1], `{"host":"h.test"}`)
		if status != 403 || !strings.Contains(body, "is a group of control planes") {
			t.Errorf("%v: %d %s", call, status, body)
		}
	}
	who := f.gate.As(model.System("test"))
	in := admit.Input{Values: map[string]any{"host": "h.test"}}
	if _, err := who.Create(t.Context(), admit.Address{Kind: gateway.Services, Scope: group}, in); !fault.Is(err, fault.Forbidden) {
		t.Errorf("the gate: %v", err)
	}
	if _, err := who.Create(t.Context(), admit.Address{Kind: gateway.Services, Scope: "nowhere"}, in); !fault.Is(err, fault.NotFound) {
		t.Errorf("a control plane that there is not: %v", err)
	}
	if _, err := who.Write(t.Context(), model.Credential, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Instances, Scope: group, Name: "gw", Spec: &gateway.Instance{}})
		return err
	}); err != nil {
		t.Errorf("a gateway of a group cannot enrol: %v", err)
	}
	if got := f.has(group, "/services"); got != 0 {
		t.Errorf("the group has %d services of its own", got)
	}
}

// TestGroupStatus: both sides of a conflict are named as long as there is one, once somebody follows
// the group.
func TestGroupStatus(t *testing.T) {
	f := setupPlanes(t)
	group, a, b := f.plane("group", cloud.TypeGroup), f.plane("aa", cloud.TypeHybrid), f.plane("bb", cloud.TypeHybrid)
	f.expects(204, "PUT", controlPlanes+"/"+group+"/group-memberships", members(a, b))
	const id = "10000000-0000-4000-8000-000000000001"
	for plane, name := range map[string]string{a: "first", b: "second"} {
		if status, body := f.raw("admin", "PUT", entities(plane)+"/services/"+id, `{"name":"`+name+`","host":"h.test"}`); status != 200 {
			t.Fatal(status, body)
		}
	}
	status := func() map[string]any {
		t.Helper()
		return f.expects(200, "GET", controlPlanes+"/"+group+"/group-status", "")["item"].(map[string]any)
	}
	if got := status(); got["state"] != "UNKNOWN" || got["id"] != group {
		t.Errorf("before any node: %v", got)
	}
	f.fleet.followed[group] = true
	got := status()
	sides := map[string]string{}
	for _, c := range got["conflicts"].([]any) {
		c := c.(map[string]any)
		if res := c["resource"].(map[string]any); res["id"] != id || res["type"] != "service" {
			t.Errorf("the resource is %v", res)
		}
		sides[c["cluster_id"].(string)] = c["description"].(string)
	}
	if got["state"] != "CONFLICT" || len(sides) != 2 || sides[a] != "conflicting entity found: ID="+id+", Name=first" || sides[b] != "conflicting entity found: ID="+id+", Name=second" {
		t.Errorf("the conflict is %v", got)
	}
	if code, body := f.raw("viewer@"+group, "GET", controlPlanes+"/"+group+"/group-status", ""); code != 200 || strings.Contains(body, id) {
		t.Errorf("who may read no member sees %d %s", code, body)
	}
	f.raw("admin", "DELETE", entities(b)+"/services/"+id, "")
	if f.fleet.behind = 1; status()["state"] != "UNKNOWN" {
		t.Errorf("before the view has seen it: %v", status())
	}
	f.fleet.behind = 0
	if got := status(); got["state"] != "OK" || len(got["conflicts"].([]any)) != 0 {
		t.Errorf("after it: %v", got)
	}
}

// TestStatusNamesDeadCredentials: credentials that members share count for nobody, so the group is
// not said to be well, and nothing shows what is shared.
func TestStatusNamesDeadCredentials(t *testing.T) {
	f := setupPlanes(t)
	group, a, b := f.plane("group", cloud.TypeGroup), f.plane("aa", cloud.TypeHybrid), f.plane("bb", cloud.TypeHybrid)
	f.expects(204, "PUT", controlPlanes+"/"+group+"/group-memberships", members(a, b))
	f.fleet.followed[group] = true
	post := func(plane, path, body string) {
		t.Helper()
		if status, text := f.raw("admin", "POST", entities(plane)+path, body); status != 201 {
			t.Fatal(status, text)
		}
	}
	for plane, user := range map[string]string{a: "anna", b: "bert"} {
		post(plane, "/consumers", `{"username":"`+user+`"}`)
	}
	is := func(when, state string, kinds ...string) {
		t.Helper()
		item := f.expects(200, "GET", controlPlanes+"/"+group+"/group-status", "")["item"].(map[string]any)
		var got []string
		for _, c := range item["conflicts"].([]any) {
			got = append(got, c.(map[string]any)["resource"].(map[string]any)["type"].(string))
		}
		if text := fmt.Sprint(item); item["state"] != state || !slices.Equal(got, kinds) || strings.Contains(text, "shared") {
			t.Errorf("%s: %s", when, text)
		}
	}
	is("before", "OK")
	for plane, user := range map[string]string{a: "anna", b: "bert"} {
		post(plane, "/consumers/"+user+"/oauth2", `{"name":"app","client_id":"shared-client","redirect_uris":["https://app.example/cb"]}`)
	}
	is("with one client_id", "CONFLICT", "oauth2_credential", "oauth2_credential")
	for plane, user := range map[string]string{a: "anna", b: "bert"} {
		post(plane, "/consumers/"+user+"/key-auth", `{"key":"shared-key"}`)
	}
	is("with one key", "CONFLICT", "oauth2_credential", "oauth2_credential", "keyauth_credential", "keyauth_credential")
	defer func(was int) { maxCompared = was }(maxCompared)
	maxCompared = 3
	is("with more than is compared", "CONFLICT", "oauth2_credential", "oauth2_credential")
	maxCompared = 1
	is("with far more than is compared", "UNKNOWN")
}

// TestNodesOfAControlPlane: who is in step has the hash that is expected, and each change makes
// another one.
func TestNodesOfAControlPlane(t *testing.T) {
	f := setupPlanes(t)
	a, b := f.plane("aa", cloud.TypeHybrid), f.plane("bb", cloud.TypeHybrid)
	f.fleet.connects(a)
	away := f.fleet.gateways[a][0]
	away.Name, away.InStep = "cp/"+a+"/late", false
	f.fleet.gateways[a] = append(f.fleet.gateways[a], away)
	hash := func(id string) string {
		t.Helper()
		return f.expects(200, "GET", controlPlanes+"/"+id+"/expected-config-hash", "")["expected_hash"].(string)
	}
	was, others := hash(a), hash(b)
	if status, body := f.raw("admin", "POST", entities(a)+"/services", `{"host":"h.test"}`); status != 201 {
		t.Fatal(status, body)
	}
	if hash(a) == was || hash(b) != others || was == others {
		t.Errorf("the hashes are %s of %s, and %s of %s", hash(a), was, hash(b), others)
	}
	f.fleet.publishes(a, f.store.Revision())
	doc := f.expects(200, "GET", controlPlanes+"/"+a+"/nodes", "")
	items := doc["items"].([]any)
	if len(items) != 2 || doc["page"].(map[string]any)["total_count"] != 2.0 {
		t.Fatalf("the nodes are %v", doc)
	}
	for i, inStep := range []bool{true, false} {
		n := items[i].(map[string]any)
		if same := n["config_hash"] == hash(a); same != inStep || n["last_ping"] != float64(epoch.Unix()) || !model.IsUUID(n["id"].(string)) {
			t.Errorf("the node is %v", n)
		}
	}
	first := f.expects(200, "GET", controlPlanes+"/"+a+"/nodes?page[size]=1", "")
	second := f.expects(200, "GET", first["page"].(map[string]any)["next"].(string), "")
	if len(first["items"].([]any)) != 1 || second["items"].([]any)[0].(map[string]any)["hostname"] != "late" || second["page"].(map[string]any)["next"] != nil {
		t.Errorf("the pages are %v and %v", first, second)
	}
}

// TestHashOutlivesRecords: what nodes should have is the same when the records of its changes are
// removed, because others have changed something.
func TestHashOutlivesRecords(t *testing.T) {
	f := setupPlanesIn(t, memstore.Open(memstore.Options{Now: func() time.Time { return epoch }, Retention: store.Retention{Rows: 1}}))
	a, b := f.plane("aa", cloud.TypeHybrid), f.plane("bb", cloud.TypeHybrid)
	hash := func() string {
		t.Helper()
		return fmt.Sprint(f.expects(200, "GET", controlPlanes+"/"+a+"/expected-config-hash", ""))
	}
	empty := hash()
	for _, plane := range []string{a, b} {
		before := hash()
		if status, body := f.raw("admin", "POST", entities(plane)+"/services", `{"host":"h.test"}`); status != 201 {
			t.Fatal(status, body)
		}
		if now := hash(); now == empty || (now == before) == (plane == a) {
			t.Errorf("after a change of %s: %s, before %s, when empty %s", plane, now, before, empty)
		}
	}
	f.expects(204, "DELETE", controlPlanes+"/"+a, "")
	if err := f.store.View(t.Context(), func(r store.Reader) error {
		left, err := cloud.StandingOf(r, a)
		if left != nil {
			t.Errorf("of what is deleted there is %v", left)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestNodesWithoutWhatIsStored: a node that has answered everything is not said to have what was not
// published yet, or cannot be.
func TestNodesWithoutWhatIsStored(t *testing.T) {
	f := setupPlanes(t)
	group, a := f.plane("group", cloud.TypeGroup), f.plane("aa", cloud.TypeHybrid)
	f.expects(204, "PUT", controlPlanes+"/"+group+"/group-memberships", members(a))
	f.fleet.connects(group)
	shown := func() (expected, has any, state string) {
		t.Helper()
		expected = f.expects(200, "GET", controlPlanes+"/"+group+"/expected-config-hash", "")["expected_hash"]
		n := f.expects(200, "GET", controlPlanes+"/"+group+"/nodes", "")["items"].([]any)[0].(map[string]any)
		return expected, n["config_hash"], fmt.Sprint(n["compatibility_status"])
	}
	is := func(when string, has bool, state string) {
		t.Helper()
		if expected, hash, text := shown(); (expected == hash) != has || !strings.Contains(text, state) {
			t.Errorf("%s: expected %v, it has %v, %s", when, expected, hash, text)
		}
	}
	f.fleet.publishes(group, f.store.Revision()-1)
	is("before it has its members", false, "FULLY_COMPATIBLE")
	f.fleet.publishes(group, f.store.Revision())
	is("once it has them", true, "FULLY_COMPATIBLE")
	if status, body := f.raw("admin", "POST", entities(a)+"/services", `{"host":"h.test"}`); status != 201 {
		t.Fatal(status, body)
	}
	is("before a service is published", false, "FULLY_COMPATIBLE")
	f.fleet.publishes(group, f.store.Revision())
	is("once it is", true, "FULLY_COMPATIBLE")
	f.fleet.gateways[group][0].Problems = []string{"the service " + a + " cannot be planned"}
	is("while a part keeps its last good version", false, "INCOMPATIBLE")
	if _, _, text := shown(); !strings.Contains(text, "not applied as it is") || strings.Contains(text, a) {
		t.Errorf("its issues are %s", text)
	}
}

// TestDeletionOfAControlPlane: nothing is left of it, however much there was, and what its tokens
// opened is revoked with it. A connected node keeps it.
func TestDeletionOfAControlPlane(t *testing.T) {
	f := setupPlanes(t)
	few(t)
	a, b := f.plane("aa", cloud.TypeHybrid), f.plane("bb", cloud.TypeHybrid)
	who := f.gate.As(model.System("test"))
	for _, plane := range []string{a, b} {
		if _, err := who.Write(t.Context(), model.Config, func(tx store.Tx) error { return fill(tx, plane) }); err != nil {
			t.Fatal(err)
		}
	}
	f.fleet.connects(a)
	f.expects(409, "DELETE", controlPlanes+"/"+a, "")
	f.fleet.gateways = nil
	revoked := map[string]int{}
	f.revoker.OnStage = func(tx store.Tx) error {
		for _, c := range tx.Changes() {
			if c.New == nil && c.Old.Kind == gateway.Tokens {
				revoked[c.Old.Spec.(*gateway.Token).AccessToken]++
			}
		}
		return nil
	}
	f.expects(204, "DELETE", controlPlanes+"/"+a, "")
	for n := range batch {
		if revoked[fmt.Sprint(a, n)] == 0 {
			t.Errorf("token %d of what is deleted is not revoked", n)
		}
	}
	if len(revoked) != batch {
		t.Errorf("%d tokens are revoked, want %d", len(revoked), batch)
	}
	if err := f.store.View(t.Context(), func(r store.Reader) error {
		for _, k := range gateway.Kinds() {
			for plane, want := range map[string]bool{a: false, b: true} {
				n, err := r.Count(k, store.Query{Scope: plane})
				if err != nil {
					return err
				}
				if some := n > 0; some != want && (some || k == gateway.Services || k == gateway.Tokens) {
					t.Errorf("%s has %d %s", plane, n, k.Path)
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// failing is a resolver that fails when it is asked once more than it may be.
type failing struct {
	cloud.Resolver
	left *int
}

func (f failing) ReadOnly(r store.Reader, key model.Key) (bool, error) {
	if *f.left--; *f.left < 0 {
		return false, fault.New(fault.Unavailable, "the disk is full")
	}
	return f.Resolver.ReadOnly(r, key)
}

// TestDeletionIsTakenUpAgain: a deletion that fails midway says so, and nothing joins the control plane
// any more or is created in it, so that a repeated request is not refused and ends it.
func TestDeletionIsTakenUpAgain(t *testing.T) {
	f := setupPlanes(t)
	few(t)
	a, group := f.plane("aa", cloud.TypeHybrid), f.plane("gg", cloud.TypeGroup)
	if _, err := f.gate.As(model.System("test")).Write(t.Context(), model.Config, func(tx store.Tx) error { return fill(tx, a) }); err != nil {
		t.Fatal(err)
	}
	left := batch + batch/2
	f.gate.Resolve(failing{left: &left})
	got := told(f.do("DELETE", controlPlanes+"/"+a, ""))
	if want := "503 Service Unavailable/The control plane is deleted in part: repeat the request"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	f.gate.Resolve(cloud.Resolver{})
	if n := f.has(a, "/services"); n == 0 {
		t.Fatal("everything is deleted")
	}
	if status, body := f.raw("admin", "POST", entities(a)+"/services", `{"name":"new","host":"h.test"}`); status != 404 {
		t.Errorf("something is created in it: %d %s", status, body)
	}
	got = told(f.do("POST", controlPlanes+"/"+group+"/group-memberships/add", members(a)))
	if !strings.Contains(got, `"aa" is being deleted`) {
		t.Errorf("it joins a group: %s", got)
	}
	f.fleet.connects(a)
	f.expects(204, "DELETE", controlPlanes+"/"+a, "")
	f.expects(404, "GET", controlPlanes+"/"+a, "")
	f.expects(404, "DELETE", controlPlanes+"/"+a, "")
}

// few has one transaction delete few rows, so that few are more than one deletes. It is called before anything
// is deleted, and by no tests at the same time.
func few(t *testing.T) {
	was := batch
	batch = 20
	t.Cleanup(func() { batch = was })
}

// fill gives a control plane more than one transaction deletes.
func fill(tx store.Tx, plane string) error {
	put := func(k *model.Kind, name string, spec any) error {
		_, err := tx.Create(&model.Resource{Kind: k, Scope: plane, Name: name, Spec: spec})
		return err
	}
	id := func(n int) string { return fmt.Sprintf("10000000-0000-4000-8000-%012d", n) }
	if err := put(gateway.Consumers, id(1), &gateway.Consumer{Username: "anna"}); err != nil {
		return err
	}
	if err := put(gateway.Applications, id(2), &gateway.Application{ClientID: "c", ClientSecret: "s", Consumer: id(1)}); err != nil {
		return err
	}
	if err := put(gateway.Plugins, id(3), &gateway.Plugin{Name: "key-auth", Enabled: true}); err != nil {
		return err
	}
	if err := put(gateway.Instances, "gw", &gateway.Instance{}); err != nil {
		return err
	}
	for n := range batch {
		service := id(10000 + n)
		if err := put(gateway.Services, service, &gateway.Service{Host: "h.test"}); err != nil {
			return err
		}
		if err := put(gateway.Routes, id(20000+n), &gateway.Route{Paths: []string{"/"}, Service: service}); err != nil {
			return err
		}
		if err := put(gateway.Tokens, id(30000+n), &gateway.Token{Credential: id(2), Service: service, AccessToken: fmt.Sprint(plane, n)}); err != nil {
			return err
		}
	}
	return nil
}

// TestAccessByControlPlane: a role is one in its control plane.
func TestAccessByControlPlane(t *testing.T) {
	f := setupPlanes(t)
	a, b, group := f.plane("aa", cloud.TypeHybrid), f.plane("bb", cloud.TypeHybrid), f.plane("group", cloud.TypeGroup)
	list := controlPlanes + "/" + group + "/group-memberships/add"
	for _, test := range []struct {
		token, method, path, body string
		want                      int
	}{
		{"", "GET", controlPlanes, "", 401},
		{"junk", "GET", controlPlanes, "", 401},
		{"viewer@" + a, "GET", controlPlanes + "/" + a, "", 200},
		{"viewer@" + a, "GET", controlPlanes + "/" + b, "", 403},
		{"viewer@" + a, "GET", entities(a) + "/services", "", 200},
		{"viewer@" + a, "GET", entities(b) + "/services", "", 403},
		{"viewer@" + a, "POST", entities(a) + "/services", `{"host":"h.test"}`, 403},
		{"editor@" + a, "POST", entities(a) + "/services", `{"host":"h.test"}`, 201},
		{"editor@" + a, "POST", entities(b) + "/services", `{"host":"h.test"}`, 403},
		{"editor@" + a, "PATCH", controlPlanes + "/" + a, `{"name":"xx"}`, 403},
		{"editor@" + a, "GET", olderPath + "/" + a + "/services", "", 200},
		{"editor@" + a, "GET", olderPath + "/" + b + "/services", "", 403},
		{"admin@" + a, "PATCH", controlPlanes + "/" + a, `{"description":"x"}`, 200},
		{"admin@" + a, "POST", controlPlanes, `{"name":"yy"}`, 403},
		{"admin@default", "GET", entities(cloud.DefaultID) + "/services", "", 200},
		{"admin@" + group, "POST", list, members(a), 404},
		{"admin@" + a, "POST", list, members(a), 403},
		{"admin@", "POST", list, members(a), 204},
	} {
		if status, body := f.raw(test.token, test.method, test.path, test.body); status != test.want {
			t.Errorf("%s: %s %s: %d %s, want %d", test.token, test.method, test.path, status, body, test.want)
		}
	}
	for token, want := range map[string]int{"viewer@" + a: 1, "viewer@": 4} {
		if _, doc := f.as(token, "GET", controlPlanes, ""); len(doc["data"].([]any)) != want {
			t.Errorf("%s sees %v", token, doc)
		}
	}
	_, doc := f.as("", "GET", controlPlanes, "")
	_, refused := f.as("viewer@"+a, "GET", controlPlanes+"/"+b, "")
	if doc["title"] != "Unauthenticated" || refused["title"] != "Permission denied" {
		t.Errorf("%v, %v", doc, refused)
	}
}

package cloudapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
)

// fleet are gateways that a test names, by scope. Groups in followed have a view.
type fleet struct {
	gateways map[string][]nodes.Node
	followed map[string]bool
	store    store.Store
	// asked counts the questions for gateways.
	asked int
	// behind is how many revisions views have not seen yet.
	behind uint64
}

// Gateways implements [Fleet].
func (f *fleet) Gateways(scopes ...string) (list []nodes.Node) {
	f.asked++
	for _, scope := range scopes {
		list = append(list, f.gateways[scope]...)
	}
	return list
}

// LeftOut implements [Fleet] as a view would: from the state, for those that are followed.
func (f *fleet) LeftOut(scope string) (list []scopes.Clash, revision uint64, known bool) {
	if !f.followed[scope] {
		return nil, 0, false
	}
	err := f.store.View(context.Background(), func(r store.Reader) error {
		revision = r.Revision() - f.behind
		src, err := cloud.Resolver{}.Resolve(r, scope)
		if err != nil {
			return err
		}
		g, err := view.LoadSource(scope, src)
		if err == nil {
			list = g.LeftOut()
		}
		return err
	})
	return list, revision, err == nil
}

// connects makes a gateway of a scope connected.
func (f *fleet) connects(scope string) {
	f.gateways[scope] = append(f.gateways[scope], nodes.Node{Name: "cp/" + scope + "/gw", State: insight.Connected, InStep: true})
}

// publishes has a scope show a revision to its gateways.
func (f *fleet) publishes(scope string, revision uint64) {
	for i := range f.gateways[scope] {
		f.gateways[scope][i].Revisions.Desired = revision
	}
}

// planeFixture is an API with control planes and their entities.
type planeFixture struct {
	*fixture
	fleet   *fleet
	store   store.Store
	gate    *admit.Gate
	revoker *admittest.Revoker
}

func setupPlanes(t *testing.T) *planeFixture {
	t.Helper()
	now := func() time.Time { return epoch }
	return setupPlanesIn(t, memstore.Open(memstore.Options{Now: now}))
}

// setupPlanesIn is setupPlanes with a store, which it closes.
func setupPlanesIn(t *testing.T, s store.Store) *planeFixture {
	t.Helper()
	now := func() time.Time { return epoch }
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	revoker := &admittest.Revoker{}
	gate := admit.New(s, revoker, slices.Concat(cloud.Kinds(), gateway.Kinds()), now)
	gate.Resolve(cloud.Resolver{})
	gate.Accompany(cloud.Note)
	if err := cloud.EnsureFirst(t.Context(), s, gate.As(model.System("test"))); err != nil {
		t.Fatal(err)
	}
	f := &fleet{gateways: map[string][]nodes.Node{}, followed: map[string]bool{}, store: s}
	identify := func(r *http.Request) (model.Actor, error) {
		token, _ := httpkit.TokenOf(r)
		switch {
		case token == "admin":
			return model.Administrator(), nil
		case token == "":
			return model.Anonymous(), nil
		case strings.Contains(token, "@"): // role@control plane
			role, plane, _ := strings.Cut(token, "@")
			return model.User(role).Holding(model.OwnRole{Role: role, ControlPlane: plane}), nil
		}
		return model.Actor{}, fault.New(fault.Denied, "no such token")
	}
	rules := access.New(access.Options{Identified: true})
	entities := gatewayapi.New(gatewayapi.Options{
		Store: s, Gate: gate, Collections: gatewayapi.Collections(), Log: slog.New(slog.DiscardHandler), Now: now, Rules: rules, Entities: true,
	})
	api := New(Options{
		Store: s, Gate: gate, Log: slog.New(slog.DiscardHandler), Now: now, Vendor: "meshgate", Rules: rules, Identify: identify, Global: true, Regional: true,
		Accounts: accounts(s, gate, now), PortalDomain: "portals.example", Signer: signer(t),
		Planes: PlaneOptions{
			Fleet: f, Endpoint: "https://cp.example:5678", Telemetry: "https://cp.example:5679",
			Entities: entities.Endpoints(), Enter: gatewayapi.In, Unlisted: gatewayapi.Unlisted, Describe: entities.Describe, Organization: Organization{"o", "org"},
		},
	})
	return &planeFixture{&fixture{t: t, handler: httpkit.Observe(api.Handler(), slog.New(slog.DiscardHandler)), api: api, now: epoch}, f, s, gate, revoker}
}

const controlPlanes = "/v2/control-planes"

// plane returns the id of a new control plane.
func (f *planeFixture) plane(name, kind string) string {
	f.t.Helper()
	status, doc := f.do(http.MethodPost, controlPlanes, fmt.Sprintf(`{"name":%q,"cluster_type":%q}`, name, kind))
	if status != http.StatusCreated {
		f.t.Fatalf("%d %v", status, doc)
	}
	return doc["id"].(string)
}

// expects sends a request as an administrator and compares the status.
func (f *planeFixture) expects(want int, method, target, body string) map[string]any {
	f.t.Helper()
	status, doc := f.do(method, target, body)
	if status != want {
		f.t.Errorf("%s %s %s: %d %v, want %d", method, target, body, status, doc, want)
	}
	return doc
}

func members(ids ...string) string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = fmt.Sprintf(`{"id":%q}`, id)
	}
	return `{"members":[` + strings.Join(list, ",") + `]}`
}

// TestControlPlaneRecord: what is written is read back in the form that clients know.
func TestControlPlaneRecord(t *testing.T) {
	f := setupPlanes(t)
	doc := f.expects(201, "POST", controlPlanes, `{"name":"shop","cluster_type":"CLUSTER_TYPE_CONTROL_PLANE","description":"","labels":{"env":"prod"},"proxy_urls":[{"host":"h","port":443,"protocol":"https"}]}`)
	id := doc["id"].(string)
	want := map[string]any{
		"id": id, "name": "shop", "description": "", "labels": map[string]any{"env": "prod"},
		"config": map[string]any{
			"control_plane_endpoint": "https://cp.example:5678", "telemetry_endpoint": "https://cp.example:5679", "cluster_type": "CLUSTER_TYPE_CONTROL_PLANE",
			"auth_type": "pinned_client_certs", "cloud_gateway": false, "proxy_urls": []any{map[string]any{"host": "h", "port": 443.0, "protocol": "https"}},
		},
		"created_at": "2023-11-14T22:13:20.123Z", "updated_at": "2023-11-14T22:13:20.123Z",
	}
	same := func(doc map[string]any) {
		t.Helper()
		if a, b := fmt.Sprint(doc), fmt.Sprint(want); a != b {
			t.Errorf("the record is\n%s\nwant\n%s", a, b)
		}
	}
	same(doc)
	want["description"] = "of the shop"
	same(f.expects(200, "PATCH", controlPlanes+"/"+id, `{"description":"of the shop"}`))
	want["description"] = ""
	same(f.expects(200, "PATCH", controlPlanes+"/"+id, `{"description":""}`))
	same(f.expects(200, "GET", controlPlanes+"/"+id, ""))
	f.expects(204, "DELETE", controlPlanes+"/"+id, "")
	if doc := f.expects(404, "GET", controlPlanes+"/"+id, ""); doc["detail"] != "The requested control plane was not found." {
		t.Errorf("%v", doc)
	}
	first := f.expects(200, "GET", controlPlanes+"/"+cloud.DefaultID, "")
	if first["name"] != "default" || first["config"].(map[string]any)["cluster_type"] != cloud.TypeHybrid {
		t.Errorf("the first control plane is %v", first)
	}
}

// TestControlPlaneRefusals: each mistake is named by its field.
func TestControlPlaneRefusals(t *testing.T) {
	f := setupPlanes(t)
	id := f.plane("taken", cloud.TypeHybrid)
	for _, test := range []struct {
		method, path, body string
		status             int
		want               string // of the document
	}{
		{"POST", "", `{}`, 400, `"name" is required`},
		{"POST", "", `{"name":"a"}`, 400, "at least 2 characters"},
		{"POST", "", `{"name":"` + strings.Repeat("é", 257) + `"}`, 400, "at most 256 characters"},
		{"POST", "", `{"name":"ab","cluster_type":"CLUSTER_TYPE_X"}`, 400, "cluster_type"},
		{"POST", "", `{"name":"ab","id":"10000000-0000-4000-8000-000000000000"}`, 400, "property id should not exist"},
		{"POST", "", `{"name":"10000000-0000-4000-8000-00000000000A"}`, 400, "must not be a UUID"},
		{"POST", "", `{"name":"ab","colour":1}`, 400, "property colour should not exist"},
		{"POST", "", `{"name":"ab","description":"` + strings.Repeat("d", 2049) + `"}`, 400, "description"},
		{"POST", "", `{"name":"ab","labels":{"mesh-x":"y"}}`, 400, "must not start with"},
		{"POST", "", `{"name":"ab","labels":{"x":"-"}}`, 400, "labels"},
		{"POST", "", `{"name":"ab","labels":{"x":"` + strings.Repeat("v", 64) + `"}}`, 400, "labels"},
		{"POST", "", `{"name":"ab","proxy_urls":[{"host":"h","port":0,"protocol":"http"}]}`, 400, "proxy_urls"},
		{"POST", "", `{"name":"ab","proxy_urls":[{"host":"h","protocol":"http"}]}`, 400, "proxy_urls"},
		{"POST", "", `{"name":"ab","proxy_urls":[` + strings.Repeat(`{"host":"h","port":1,"protocol":"http"},`, 5) + `{"host":"h","port":1,"protocol":"http"}]}`, 400, "proxy_urls"},
		{"POST", "", `{"name":"taken"}`, 409, "Control plane with provided name already exists."},
		{"POST", "", `{"name":"default"}`, 409, "already exists"},
		{"PATCH", "/" + id, `{"cluster_type":"CLUSTER_TYPE_CONTROL_PLANE_GROUP"}`, 400, "property cluster_type should not exist"},
		{"PATCH", "/" + cloud.DefaultID, `{"name":"another"}`, 400, "keeps its name"},
		{"DELETE", "/" + cloud.DefaultID, "", 409, "first control plane"},
		{"GET", "?sort=colour", "", 400, "created_at"},
		{"GET", "?filter[colour]=x", "", 400, "should not exist"},
		{"GET", "/" + id + "/group-memberships", "", 400, "not a group"},
		{"GET", "/" + id + "/group-status", "", 400, "not a group"},
		{"GET", "/10000000-0000-4000-8000-000000000000/nodes", "", 404, "not found"},
	} {
		status, doc := f.do(test.method, controlPlanes+test.path, test.body)
		if text := fmt.Sprint(doc); status != test.status || !strings.Contains(text, test.want) {
			t.Errorf("%s %s %s: %d %s", test.method, test.path, test.body, status, text)
		}
	}
}

// TestControlPlaneForm: control planes are created by forms, too.
func TestControlPlaneForm(t *testing.T) {
	f := setupPlanes(t)
	r := httptest.NewRequest("POST", controlPlanes, strings.NewReader("name=formed&cluster_type=CLUSTER_TYPE_CONTROL_PLANE_GROUP"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer admin")
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	if w.Code != 201 || !strings.Contains(w.Body.String(), `"cluster_type":"CLUSTER_TYPE_CONTROL_PLANE_GROUP"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestControlPlaneList: filters, labels and orders select, and pages count what is selected.
func TestControlPlaneList(t *testing.T) {
	f := setupPlanes(t)
	ids := map[string]string{"default": cloud.DefaultID}
	for _, name := range []string{"alpha", "beta", "gamma"} {
		ids[name] = f.plane(name, cloud.TypeHybrid)
	}
	ids["group"] = f.plane("group", cloud.TypeGroup)
	f.expects(200, "PATCH", controlPlanes+"/"+ids["beta"], `{"labels":{"env":"prod","team":"x"}}`)
	f.expects(200, "PATCH", controlPlanes+"/"+ids["gamma"], `{"labels":{"env":"test"}}`)
	for query, want := range map[string]string{
		"sort=name":                             "alpha beta default gamma group; 5",
		"sort=name%20desc&page[size]=2":         "group gamma; 5",
		"sort=name&page[size]=2&page[number]=3": "group; 5",
		"sort=name&page[number]=9":              "; 5",
		"filter[name]=beta":                     "beta; 1",
		"filter[name][neq]=beta&sort=name":      "alpha default gamma group; 4",
		"filter[name][contains]=a&filter[cluster_type]=CLUSTER_TYPE_HYBRID&sort=name":        "alpha beta default gamma; 4",
		"filter[cluster_type][oeq]=CLUSTER_TYPE_CONTROL_PLANE_GROUP,CLUSTER_TYPE_SERVERLESS": "group; 1",
		"filter[cloud_gateway]=true":                                         "; 0",
		"filter[id][oeq]=" + ids["alpha"] + "," + ids["beta"] + "&sort=name": "alpha beta; 2",
		"labels=env:prod,team":                                               "beta; 1",
		"labels=env&sort=name":                                               "beta gamma; 2",
	} {
		doc := f.expects(200, "GET", controlPlanes+"?"+query, "")
		var names []string
		for _, item := range doc["data"].([]any) {
			names = append(names, item.(map[string]any)["name"].(string))
		}
		total := doc["meta"].(map[string]any)["page"].(map[string]any)["total"]
		if got := fmt.Sprintf("%s; %v", strings.Join(names, " "), total); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// TestMembers: who joins and leaves, all or none, and who may not.
func TestMembers(t *testing.T) {
	f := setupPlanes(t)
	group, other := f.plane("group", cloud.TypeGroup), f.plane("other", cloud.TypeGroup)
	a, b, busy := f.plane("aa", cloud.TypeHybrid), f.plane("bb", cloud.TypeHybrid), f.plane("busy", cloud.TypeHybrid)
	f.fleet.connects(busy)
	list := controlPlanes + "/" + group + "/group-memberships"
	is := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, item := range f.expects(200, "GET", list, "")["data"].([]any) {
			got = append(got, item.(map[string]any)["id"].(string))
		}
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s the members are %v, want %v", when, got, want)
		}
	}
	f.expects(204, "POST", list+"/add", members(a, cloud.DefaultID))
	is("at first", a, cloud.DefaultID)
	for _, test := range []struct {
		body   string
		status int
		want   string
	}{
		{members(b, busy), 400, "1 connected data plane nodes"},
		{members(b, other), 400, "a group cannot be in a group"},
		{members(b, group), 400, "a group cannot be in a group"},
		{members(b, "10000000-0000-4000-8000-000000000000"), 404, "not found"},
		{members(b, "x"), 400, "members[1].id"},
		{members(), 400, "must not be empty"},
		{`{}`, 400, `"members" is required`},
		{`{"members":1}`, 400, "must be an array"},
		{`{"members":[1]}`, 400, "members[0].id"},
		{`{"members":[],"x":1}`, 400, "Request contains unknown property"},
		{`{"members":[{"id":"` + a + `"}],"members":[{"id":"` + b + `"}]}`, 400, "members"},
		{`{"members":[{"id":"` + a + `","id":"` + b + `"}]}`, 400, "members"},
		{members(slices.Repeat([]string{b}, 51)...), 400, "max_items"},
	} {
		status, doc := f.do("POST", list+"/add", test.body)
		if text := fmt.Sprint(doc); status != test.status || !strings.Contains(text, test.want) {
			t.Errorf("%s: %d %s", test.body, status, text)
		}
	}
	is("after refusals", a, cloud.DefaultID)
	f.expects(204, "POST", list+"/add", members(a))
	f.expects(204, "POST", list+"/remove", members(b, busy, cloud.DefaultID))
	is("one has left", a)
	f.expects(204, "PUT", list, members(b))
	is("it is set", b)
	f.fleet.connects(b)
	f.expects(204, "PUT", list, members(b))
	if doc := f.expects(200, "GET", controlPlanes+"/"+b+"/group-member-status", ""); doc["is_member"] != true {
		t.Errorf("%v", doc)
	}
	if doc := f.expects(200, "GET", controlPlanes+"/"+a+"/group-member-status", ""); doc["is_member"] != false {
		t.Errorf("%v", doc)
	}
	f.fleet.gateways = map[string][]nodes.Node{}
	f.expects(409, "DELETE", controlPlanes+"/"+b, "")
	f.expects(204, "PUT", list, members())
	is("all have left")
	f.expects(204, "DELETE", controlPlanes+"/"+b, "")
	f.expects(204, "DELETE", controlPlanes+"/"+group, "")
}

// TestGatewaysThatComeBack: a gateway that is away for a moment keeps its control plane from joining,
// and so does one that had no time to come since the start. However many join, the fleet is looked
// through once.
func TestGatewaysThatComeBack(t *testing.T) {
	f := setupPlanes(t)
	group, a, b := f.plane("group", cloud.TypeGroup), f.plane("aa", cloud.TypeHybrid), f.plane("bb", cloud.TypeHybrid)
	now := epoch
	f.api.Now = func() time.Time { return now }
	f.fleet.connects(a)
	gw := &f.fleet.gateways[a][0]
	list := controlPlanes + "/" + group + "/group-memberships"
	for _, step := range []struct {
		why       string
		at        time.Duration
		since     time.Duration
		state     string
		returning bool
		want      int
	}{
		{"it did not come since the start", 59 * time.Second, -time.Hour, insight.Away, false, 400},
		{"it is connected", time.Hour, 0, insight.Connected, false, 400},
		{"it left a moment ago", time.Hour, time.Hour - 59*time.Second, insight.Away, false, 400},
		{"it comes back with a newer token", time.Hour, 0, insight.Away, true, 400},
		{"it left in the next minute, by another clock", time.Hour, time.Hour + 59*time.Second, insight.Away, false, 400},
		{"it is gone", time.Hour, time.Hour - time.Minute, insight.Away, false, 204},
	} {
		now = epoch.Add(step.at)
		since := epoch.Add(step.since)
		gw.State, gw.Since, gw.Returning = step.state, &since, step.returning
		f.fleet.asked = 0
		if status, doc := f.do("POST", list+"/add", members(a, b)); status != step.want {
			t.Errorf("%s: %d %v", step.why, status, doc)
		}
		if f.fleet.asked != 1 {
			t.Errorf("%s: the fleet was looked through %d times", step.why, f.fleet.asked)
		}
	}
	f.expects(204, "PUT", list, members())
	tomorrow := now.Add(24 * time.Hour)
	gw.Since = &tomorrow // the clock was set back since it left
	f.expects(204, "PUT", list, members(a))
	f.expects(204, "PUT", list, members())
	left := now.Add(-time.Minute)
	gw.Since = &left
	now = now.Add(-time.Second)
	f.expects(409, "DELETE", controlPlanes+"/"+a, "")
	now = now.Add(time.Second)
	f.expects(204, "DELETE", controlPlanes+"/"+a, "")
}

// TestLimitsOfGroups: a group has so many members, and a control plane is in so many groups.
func TestLimitsOfGroups(t *testing.T) {
	f := setupPlanes(t)
	ids := make([]string, cloud.MaxMembers+1)
	if _, err := f.gate.As(model.System("test")).Write(t.Context(), model.Config, func(tx store.Tx) error {
		for i := range ids {
			ids[i] = uuid.NewString()
			spec := &cloud.ControlPlane{Name: fmt.Sprintf("member-%03d", i), ClusterType: cloud.TypeHybrid, AuthType: "pinned_client_certs"}
			if _, err := tx.Create(&model.Resource{Kind: cloud.ControlPlanes, Name: ids[i], Spec: spec}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range cloud.MaxGroups {
		f.expects(204, "PUT", controlPlanes+"/"+f.plane(fmt.Sprintf("group-%d", i), cloud.TypeGroup)+"/group-memberships", members(ids[:cloud.MaxMembers]...))
	}
	sixth := controlPlanes + "/" + f.plane("sixth", cloud.TypeGroup) + "/group-memberships"
	if doc := f.expects(400, "POST", sixth+"/add", members(ids[0])); !strings.Contains(fmt.Sprint(doc), "in 5 groups already") {
		t.Errorf("%v", doc)
	}
	groups := f.expects(200, "GET", controlPlanes+"?filter[name]=group-0", "")["data"].([]any)
	first := controlPlanes + "/" + groups[0].(map[string]any)["id"].(string) + "/group-memberships"
	if doc := f.expects(400, "POST", first+"/add", members(ids[cloud.MaxMembers])); !strings.Contains(fmt.Sprint(doc), "max_items") {
		t.Errorf("%v", doc)
	}
	seen := map[string]bool{}
	next, pages := first+"?page[size]=100", 0
	for ; next != ""; pages++ {
		doc := f.expects(200, "GET", next, "")
		for _, item := range doc["data"].([]any) {
			seen[item.(map[string]any)["id"].(string)] = true
		}
		next, _ = doc["meta"].(map[string]any)["page"].(map[string]any)["next"].(string)
	}
	if len(seen) != cloud.MaxMembers || pages != 3 {
		t.Errorf("%d members on %d pages", len(seen), pages)
	}
}

// TestSpellingsOfType: to filters both spellings of the standard type are one type. Each control plane is shown with
// the spelling that it was made with.
func TestSpellingsOfType(t *testing.T) {
	f := setupPlanes(t)
	f.plane("older", cloud.TypeHybrid)
	f.plane("newer", cloud.TypePlane)
	f.plane("group", cloud.TypeGroup)
	const standard = "default=CLUSTER_TYPE_HYBRID newer=CLUSTER_TYPE_CONTROL_PLANE older=CLUSTER_TYPE_HYBRID"
	const group = "group=CLUSTER_TYPE_CONTROL_PLANE_GROUP"
	for query, want := range map[string]string{
		"[eq]=CLUSTER_TYPE_HYBRID": standard, "=CLUSTER_TYPE_CONTROL_PLANE": standard, "[eq]=CLUSTER_TYPE_CONTROL_PLANE_GROUP": group,
		"[neq]=CLUSTER_TYPE_HYBRID": group, "[neq]=CLUSTER_TYPE_CONTROL_PLANE": group, "[neq]=CLUSTER_TYPE_CONTROL_PLANE_GROUP": standard,
		"[contains]=HYBRID": standard, "[contains]=GROUP": group, "[contains]=CONTROL_PLANE": strings.Replace(standard, " ", " "+group+" ", 1),
		"[oeq]=CLUSTER_TYPE_CONTROL_PLANE,x": standard, "[oeq]=x,CLUSTER_TYPE_HYBRID": standard, "[oeq]=x": "", "[eq]=cluster_type_hybrid": "",
		"[eq]=CLUSTER_TYPE_HYBRID&filter[cluster_type][eq]=CLUSTER_TYPE_CONTROL_PLANE": standard,
	} {
		var got []string
		for _, item := range f.expects(200, "GET", controlPlanes+"?sort=name&filter[cluster_type]"+query, "")["data"].([]any) {
			row := item.(map[string]any)
			got = append(got, fmt.Sprint(row["name"], "=", row["config"].(map[string]any)["cluster_type"]))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("filter[cluster_type]%s: %s, want %s", query, text, want)
		}
	}
}

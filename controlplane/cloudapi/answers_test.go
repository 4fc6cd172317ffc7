package cloudapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cloud"
)

// mistake is what an answer with 400 says of its n-th mistake, with its bounds.
func mistake(doc map[string]any, n int) string {
	list, _ := doc["invalid_parameters"].([]any)
	if n >= len(list) {
		return fmt.Sprintf("%v/%v/no mistake %d", doc["title"], doc["detail"], n)
	}
	p := list[n].(map[string]any)
	got := fmt.Sprintf("%v/%v/%v/%v/%v/%v", doc["title"], doc["detail"], p["field"], p["reason"], p["rule"], p["source"])
	for _, bound := range []string{"minimum", "maximum"} {
		if n, ok := p[bound].(float64); ok {
			got += fmt.Sprintf("/%s %v", bound, n)
		}
	}
	return got
}

// TestBoundsAreTheRealOnes: whoever passes a limit is told the rule and the limit that is in force, also
// with characters of several bytes, and which member of which entry of a list is meant.
func TestBoundsAreTheRealOnes(t *testing.T) {
	f := setupPlanes(t)
	const invalid = titleInvalid + "/" + detailInvalid + "/"
	const proxy = `{"host":"h","port":1,"protocol":"http"}`
	for _, test := range []struct{ path, body, want string }{
		{controlPlanes, `{"name":"a"}`, invalid + "name/must be at least 2 characters/min_length/body/minimum 2"},
		{controlPlanes, `{"name":""}`, invalid + "name/must be at least 2 characters/min_length/body/minimum 2"},
		{controlPlanes, `{"name":"` + strings.Repeat("é", 257) + `"}`, invalid + "name/must be at most 256 characters/max_length/body/maximum 256"},
		{controlPlanes, `{"name":"` + strings.Repeat("n", 9000) + `"}`, invalid + "name/must be at most 256 characters/max_length/body/maximum 256"},
		{controlPlanes, `{"name":"ab","description":"` + strings.Repeat("d", 2049) + `"}`, invalid + "description/must be at most 2048 characters/max_length/body/maximum 2048"},
		{controlPlanes, `{"name":"ab","description":"` + strings.Repeat("d", 9000) + `"}`, invalid + "description/must be at most 2048 characters/max_length/body/maximum 2048"},
		{controlPlanes, `{"name":"ab","proxy_urls":[` + strings.Repeat(proxy+",", 5) + proxy + `]}`, invalid + "proxy_urls/must be at most 5 entries/max_items/body/maximum 5"},
		{controlPlanes, `{"name":"ab","proxy_urls":[` + proxy + `,{"host":"h","protocol":"http"}]}`, invalid + `proxy_urls[1].port/"proxy_urls[1].port" is required/required/body`},
		{controlPlanes, `{"name":"ab","proxy_urls":[{"host":"h","port":70000,"protocol":"http"}]}`, invalid + "proxy_urls[0].port/value should be between 1 and 65535/max/body/maximum 65535"},
		{controlPlanes, `{"name":"ab","proxy_urls":[{"host":"h","port":0,"protocol":"http"}]}`, invalid + "proxy_urls[0].port/value should be between 1 and 65535/min/body/minimum 1"},
		{controlPlanes, `{"name":"ab","proxy_urls":[{"host":"h","port":"1","protocol":"http"}]}`, invalid + "proxy_urls[0].port/expected an integer/is_integer/body"},
		{controlPlanes, `{"name":"ab","proxy_urls":[{"host":"` + strings.Repeat("h", 121) + `","port":1,"protocol":"http"}]}`, invalid + "proxy_urls[0].host/must be at most 120 characters/max_length/body/maximum 120"},
		{controlPlanes, `{"name":"ab","proxy_urls":[{"host":"h","host":"i","port":1,"protocol":"http"}]}`, invalid + "proxy_urls[0].host/is given twice/invalid/body"},
		{portalsPath, `{"name":"` + strings.Repeat("ü", 256) + `"}`, invalid + "name/must be at most 255 characters/max_length/body/maximum 255"},
		{portalsPath, `{"name":"a","display_name":"` + strings.Repeat("d", 2000) + `"}`, invalid + "display_name/must be at most 255 characters/max_length/body/maximum 255"},
		{portalsPath, `{"name":"a","description":"` + strings.Repeat("d", 9000) + `"}`, invalid + "description/must be at most 512 characters/max_length/body/maximum 512"},
		{"/v2/personal-access-tokens", `{"name":"a","role":"admin","control_planes":["default","nobody"]}`, invalid + "control_planes[1]/there is no control plane of this name or id/invalid/body"},
	} {
		status, doc := f.do(http.MethodPost, test.path, test.body)
		if got := mistake(doc, 0); status != http.StatusBadRequest || got != test.want {
			t.Errorf("%s %.60s: %d\n%s\nwant\n%s", test.path, test.body, status, got, test.want)
		}
	}
}

// TestBoundsAreDescribed: the document of the API says the same limits.
func TestBoundsAreDescribed(t *testing.T) {
	f := setupPlanes(t)
	raw, err := f.api.described()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ MinLength, MaxLength, MaxItems int }
			}
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	plane := doc.Components.Schemas["control_plane_request"].Properties
	if got := []int{plane["name"].MinLength, plane["name"].MaxLength, plane["description"].MaxLength, plane["proxy_urls"].MaxItems}; !slices.Equal(got, []int{2, 256, 2048, 5}) {
		t.Errorf("a control plane has the limits %v", got)
	}
}

// TestSentencesOfMembers: what clients know by a sentence of its own is said by that.
func TestSentencesOfMembers(t *testing.T) {
	f := setupPlanes(t)
	id := f.plane("taken", cloud.TypeHybrid)
	const unknown = titleInvalid + "/Request contains unknown property/"
	for _, test := range []struct{ method, path, body, want string }{
		{"POST", destinations, `{"name":"a","endpoint":"siem","log_format":"cef","authorization":"x"}`, "Bad Request/Invalid endpoint/endpoint/must be a valid URL/invalid/body"},
		{"POST", destinations, `{"name":"a","endpoint":"  ","log_format":"cef","authorization":"x"}`, "Bad Request/Required field missing/endpoint/cannot be blank/required/body"},
		{"POST", destinations, `{"name":"a","endpoint":"https://h/","log_format":"cef","authorization":" \t "}`, "Bad Request/Required field missing/authorization/cannot be blank/required/body"},
		{"POST", destinations, `{"name":"a","endpoint":"https://h/","log_format":"cef","authorization":" x"}`, titleInvalid + "/" + detailInvalid + "/authorization/must not begin or end with white space/invalid/body"},
		{"POST", controlPlanes, `{"name":"ab","colour":1}`, unknown + "colour/property colour should not exist/unknown_property/body"},
		{"POST", controlPlanes, `{"name":"ab","id":"10000000-0000-4000-8000-000000000000"}`, unknown + "id/property id should not exist/unknown_property/body"},
		{"POST", controlPlanes, `{"name":"ab","proxy_urls":[{"host":"h","port":1,"protocol":"http","colour":1}]}`, unknown + "proxy_urls[0].colour/property proxy_urls[0].colour should not exist/unknown_property/body"},
		{"PATCH", controlPlanes + "/" + id, `{"cluster_type":"CLUSTER_TYPE_CONTROL_PLANE_GROUP"}`, unknown + "cluster_type/property cluster_type should not exist/unknown_property/body"},
		{"POST", portalsPath, `{"name":"a","colour":1}`, titleInvalid + "/" + detailInvalid + "/colour/property colour should not exist/unknown_property/body"},
	} {
		status, doc := f.do(test.method, test.path, test.body)
		if got := mistake(doc, 0); status != http.StatusBadRequest || got != test.want {
			t.Errorf("%s %s: %d\n%s\nwant\n%s", test.path, test.body, status, got, test.want)
		}
	}
	// Two that are blank are one answer.
	_, doc := f.do("POST", destinations, `{"name":"a","log_format":"cef"}`)
	if got := mistake(doc, 1); mistake(doc, 0) != "Bad Request/Required field missing/endpoint/cannot be blank/required/body" || got != "Bad Request/Required field missing/authorization/cannot be blank/required/body" {
		t.Error(got)
	}
}

// TestWhyMembersCannotJoin: nodes that are connected are a mistake of the list, and a group too many has
// its bound.
func TestWhyMembersCannotJoin(t *testing.T) {
	f := setupPlanes(t)
	a, busy := f.plane("aa", cloud.TypeHybrid), f.plane("busy", cloud.TypeHybrid)
	f.fleet.connects(busy)
	for i := range cloud.MaxGroups {
		f.expects(204, "PUT", controlPlanes+"/"+f.plane(fmt.Sprintf("group-%d", i), cloud.TypeGroup)+"/group-memberships", members(a))
	}
	sixth := controlPlanes + "/" + f.plane("sixth", cloud.TypeGroup) + "/group-memberships/add"
	doc := f.expects(400, "POST", sixth, members(busy, a))
	const title = titleInvalid + "/Some control planes cannot join the group: "
	const why = `"busy" has 1 connected data plane nodes; one counts until it is away for 60 seconds, and so long after a start of the control plane`
	if got, want := mistake(doc, 0), title+why+"/members/"+why+"/invalid/body"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got, want := mistake(doc, 1), title+why+`/members[1].id/"aa" is in 5 groups already/max_items/body/maximum 5`; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestMalformedQueries: a query that cannot be read is not blamed on the body, which is none.
func TestMalformedQueries(t *testing.T) {
	f := setupPlanes(t)
	id := f.plane("aa", cloud.TypeGroup)
	many := strings.Repeat("page[size]=1&", 1001)
	for _, path := range []string{destinations, portalsPath, controlPlanes, controlPlanes + "/" + id + "/group-memberships", controlPlanes + "/" + id + "/nodes"} {
		for query, want := range map[string]string{
			"page[size]=%zz": "query/Cannot parse the query/invalid/query",
			many:             "query/Too many arguments/invalid/query",
		} {
			status, doc := f.do(http.MethodGet, path+"?"+query, "")
			if got := mistake(doc, 0); status != http.StatusBadRequest || got != titleInvalid+"/"+detailInvalid+"/"+want {
				t.Errorf("%s?%.20s: %d %s", path, query, status, got)
			}
		}
	}
	status, doc := f.do(http.MethodPost, destinations, `{"name":`)
	if got := mistake(doc, 0); status != http.StatusBadRequest || !strings.HasPrefix(got, "Bad Request/Could not parse request body/body/") {
		t.Errorf("a malformed body: %d %s", status, got)
	}
}

// TestDestinationInUse: whoever may not delete a destination learns who uses it, of many the first.
func TestDestinationInUse(t *testing.T) {
	f := setup(t)
	id := f.created("siem")
	var ids []string
	for i := range 12 {
		at := f.portal(fmt.Sprintf("portal-%02d", i))
		f.must(200, "PATCH", at+"/audit-log-webhook", `{"audit_log_destination_id":"`+id+`"}`)
		ids = append(ids, strings.TrimPrefix(at, portalsPath+"/"))
	}
	doc := f.must(409, "DELETE", destinations+"/"+id, "")
	detail, _ := doc["detail"].(string)
	if doc["title"] != "Conflict" || strings.Count(detail, "portal-") != 10 || !strings.Contains(detail, "and 2 more") {
		t.Errorf("%v", doc)
	}
	for _, one := range ids[1:] {
		f.must(204, "DELETE", portalsPath+"/"+one, "")
	}
	doc = f.must(409, "DELETE", destinations+"/"+id, "")
	if want := `The destination is used by the audit log webhook of portal "portal-00" (` + ids[0] + `)`; doc["detail"] != want {
		t.Errorf("%v\nwant %s", doc["detail"], want)
	}
	f.must(204, "DELETE", portalsPath+"/"+ids[0], "")
	f.must(200, "PATCH", "/v2/audit-log-webhook", `{"audit_log_destination_id":"`+id+`"}`)
	doc = f.must(409, "DELETE", destinations+"/"+id, "")
	if want := "The destination is used by the audit log webhook of the control plane itself"; doc["detail"] != want {
		t.Errorf("%v\nwant %s", doc["detail"], want)
	}
	f.must(204, "DELETE", "/v2/audit-log-webhook", "")
	f.must(204, "DELETE", destinations+"/"+id, "")
}

// TestPagesOfWhatWasDeleted: whoever follows next into rows that were deleted meanwhile finds all that
// are left by previous, and the other way round.
func TestPagesOfWhatWasDeleted(t *testing.T) {
	f := setup(t)
	for i := range 6 {
		f.created(fmt.Sprintf("siem-%d", i))
	}
	page := func(target string) (ids []string, next, previous string) {
		t.Helper()
		doc := f.must(200, "GET", target, "")
		for _, d := range doc["data"].([]any) {
			ids = append(ids, d.(map[string]any)["id"].(string))
		}
		meta := doc["meta"].(map[string]any)
		next, _ = meta["next"].(string)
		previous, _ = meta["previous"].(string)
		return ids, next, previous
	}
	first, next, _ := page(destinations + "?page[size]=2")
	second, further, back := page(next)
	third, _, _ := page(further)
	for _, id := range third {
		f.must(204, "DELETE", destinations+"/"+id, "")
	}
	got, _, previous := page(further)
	if len(got) != 0 {
		t.Fatalf("there is %v", got)
	}
	if got, _, _ = page(previous); !slices.Equal(got, second) {
		t.Errorf("before the empty page there is %v, want %v", got, second)
	}
	for _, id := range first {
		f.must(204, "DELETE", destinations+"/"+id, "")
	}
	got, next, _ = page(back)
	if len(got) != 0 {
		t.Fatalf("there is %v", got)
	}
	if got, _, _ = page(next); !slices.Equal(got, second) {
		t.Errorf("after the empty page there is %v, want %v", got, second)
	}
}

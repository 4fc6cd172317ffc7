package cloudapi

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// listed is a list with the number of its rows. Rows are told apart by a member.
type listed struct {
	path, member string
	rows         int
}

// everyList returns an API with some rows in each list that has pages.
func everyList(t *testing.T) (*planeFixture, []listed) {
	const many = 5
	f := setupPlanes(t)
	shop, team := f.plane("shop", cloud.TypeHybrid), f.plane("team", cloud.TypeGroup)
	portal := f.must(http.StatusCreated, http.MethodPost, portalsPath, `{"name":"first"}`)["id"].(string)
	ids := []string{shop}
	for i := range many {
		f.fixture.created(fmt.Sprint("siem-", i))
		f.must(http.StatusCreated, http.MethodPost, portalsPath, fmt.Sprintf(`{"name":"p%d"}`, i))
		f.must(http.StatusCreated, http.MethodPost, accessTokensPath, fmt.Sprintf(`{"name":"t%d","role":"viewer"}`, i))
		storetest.Place(t, f.store, cloud.Developers, "", fmt.Sprintf("20000000-0000-4000-8000-%012d", i), &cloud.Developer{
			Portal: portal, Email: fmt.Sprintf("d%d@shop.example", i), FullName: "D", Status: cloud.Approved,
		})
		ids = append(ids, f.plane(fmt.Sprint("plane-", i), cloud.TypeHybrid))
		cert, _ := admittest.Certificate(t)
		f.pinned(shop, cert)
		f.fleet.gateways[shop] = append(f.fleet.gateways[shop], nodes.Node{Name: fmt.Sprintf("cp/%s/gw-%d", shop, i), State: insight.Connected})
	}
	f.expects(http.StatusNoContent, http.MethodPost, controlPlanes+"/"+team+"/group-memberships/add", members(ids[1:]...))
	return f, []listed{
		{destinations, "id", many}, {accessTokensPath, "id", many}, {portalsPath, "id", many + 1}, {portalsPath + "/" + portal + "/developers", "id", many},
		{controlPlanes, "id", many + 3}, // shop, team and the first one of all
		{controlPlanes + "/" + team + "/group-memberships", "id", many}, {certificatesOf(shop), "id", many}, {controlPlanes + "/" + shop + "/nodes", "hostname", many},
	}
}

// pageOf reads a page of any list: its rows, and the path of the next one.
func (l listed) pageOf(t *testing.T, doc map[string]any) (rows []string, next string) {
	t.Helper()
	items, ok := doc["data"].([]any)
	if !ok {
		items, ok = doc["items"].([]any)
	}
	if !ok {
		t.Fatalf("%s: no list in %v", l.path, doc)
	}
	for _, item := range items {
		rows = append(rows, fmt.Sprint(item.(map[string]any)[l.member]))
	}
	for meta := doc; meta != nil; {
		if text, ok := meta["next"].(string); ok {
			return rows, text
		}
		inner, _ := meta["meta"].(map[string]any)
		if inner == nil {
			inner, _ = meta["page"].(map[string]any)
		}
		meta = inner
	}
	return rows, ""
}

// FuzzPages: whatever a client asks for as a page is answered, or refused as its mistake; whoever follows
// next sees no row twice, and from the first page on each once.
func FuzzPages(f *testing.F) {
	cursor := "MDAwMDAwMDAtMDAwMC00MDAwLTgwMDAtMDAwMDAwMDAwMDAw" // 00000000-0000-4000-8000-000000000000
	for i := range uint8(8) {
		for _, page := range [][4]string{
			{"", "", "", ""}, {"1", "", "", ""}, {"2", "1", "", ""}, {"3", "", cursor, ""}, {"3", "", "", cursor}, {"2", "", cursor, cursor}, {"100", "2147483647", "", ""},
			{"2", "1048576", "", ""}, {"101", "0", "x", "x"}, {"-1", "-1", "AA", "%00"}, {"9223372036854775808", "9223372036854775807", cursor + "=", "\x00"}, {"1e3", "0x1", "..", "é"},
		} {
			f.Add(i, page[0], page[1], page[2], page[3])
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, size, number, after, before string) {
		api, lists := everyList(t)
		l := lists[int(which)%len(lists)]
		query := url.Values{}
		for name, value := range map[string]string{argSize: size, argNumber: number, argAfter: after, argBefore: before} {
			if value != "" {
				query.Set(name, value)
			}
		}
		target, seen := l.path+"?"+query.Encode(), map[string]bool{}
		for pages := 0; target != ""; pages++ {
			status, doc := api.do(http.MethodGet, target, "")
			if status == http.StatusBadRequest && pages == 0 {
				return
			}
			if status != http.StatusOK || pages > l.rows {
				t.Fatalf("page %d, %s: %d %v", pages, target, status, doc)
			}
			var rows []string
			rows, target = l.pageOf(t, doc)
			for _, row := range rows {
				if seen[row] {
					t.Errorf("%s shows %s twice", l.path, row)
				}
				seen[row] = true
			}
			// Some lists have numbers instead of a path: their next page is asked for by its number.
			if meta, _ := doc["meta"].(map[string]any); target == "" && number == "" && len(seen) < l.rows && len(rows) > 0 && numbered(meta) {
				query.Set(argNumber, fmt.Sprint(pages+2))
				target = l.path + "?" + query.Encode()
			}
		}
		if first := number == "" && after == "" && before == ""; first && len(seen) != l.rows || len(seen) > l.rows {
			t.Errorf("%s shows %d rows of %d", l.path, len(seen), l.rows)
		}
	})
}

// numbered reports whether a page says its number.
func numbered(meta map[string]any) bool {
	page, _ := meta["page"].(map[string]any)
	return page["number"] != nil
}

package gatewayapi_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestWalkAmongWriters: whatever is created and deleted between two pages, everything that
// exists during the whole walk is seen exactly once.
func TestWalkAmongWriters(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := setup(t, nil)
		f.do("POST", "/consumers", "id="+ownerID+"&username=owner")
		// create makes an application and returns its id. Numbers are spread, so that new ids
		// lie between old ones.
		create := func(n int) string {
			id := fmt.Sprintf("%08d-0000-4000-8000-000000000000", n)
			if w := f.do("PUT", "/oauth2/"+id, fmt.Sprintf(`{"name":"n","redirect_uris":["https://a.example/"],"consumer":{"id":%q},"tags":["t","x%d"]}`, ownerID, n%2)); w.Code != 200 {
				rt.Fatalf("create: %d %s", w.Code, w.Body)
			}
			return id
		}
		there := map[string]bool{}
		for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 99), 0, 20, rapid.ID[int]).Draw(rt, "before") {
			there[create(n)] = true
		}
		start := rapid.SampledFrom([]string{"/oauth2?size=%d", "/consumers/owner/oauth2?size=%d", "/oauth2?tags=t&size=%d", "/oauth2?tags=x0/x1&size=%d"}).Draw(rt, "list")
		target := fmt.Sprintf(start, rapid.IntRange(1, 7).Draw(rt, "size"))
		seen := map[string]int{}
		for target != "" {
			p := f.page(rt, target)
			for _, d := range p.Data {
				seen[d.ID]++
			}
			if target = ""; p.Next != nil {
				target = *p.Next
			}
			for range rapid.IntRange(0, 3).Draw(rt, "writes") {
				id := create(rapid.IntRange(0, 99).Draw(rt, "row"))
				if rapid.Bool().Draw(rt, "delete") {
					f.do("DELETE", "/oauth2/"+id, "")
					delete(there, id)
				}
			}
		}
		for id, n := range seen {
			if n != 1 {
				rt.Fatalf("%s was seen %d times", id, n)
			}
		}
		for id := range there {
			if seen[id] != 1 {
				rt.Fatalf("%s was there all the time and not seen", id)
			}
		}
	})
}

const ownerID = "f0000000-0000-4000-8000-000000000000"

// TestTamperedOffset: an offset with any changed bit, or one that was cut, is refused with
// the code for this error.
func TestTamperedOffset(t *testing.T) {
	f := setup(t, nil)
	for i := range 3 {
		f.do("POST", "/consumers", "username=c"+strconv.Itoa(i))
	}
	offset := *f.page(t, "/consumers?size=1").Offset
	raw, err := base64.RawURLEncoding.DecodeString(offset)
	if err != nil {
		t.Fatal(err)
	}
	bad := []string{offset[:len(offset)-4], offset + "AAAA", "AAAA" + offset, strings.ToUpper(offset) + "A"}
	for range 64 {
		changed := slices.Clone(raw)
		changed[rand.IntN(len(changed))] ^= 1 << rand.IntN(8)
		bad = append(bad, base64.RawURLEncoding.EncodeToString(changed))
	}
	for _, o := range bad {
		if w := f.do("GET", "/consumers?offset="+url.QueryEscape(o), ""); w.Code != 400 || !strings.HasPrefix(w.Body.String(), `{"code":7,`) {
			t.Errorf("offset %s: %d %s", o, w.Code, w.Body)
		}
	}
}

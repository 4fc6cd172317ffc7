package gatewayapi_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type pageDoc struct {
	Data []struct {
		ID string `json:"id"`
	} `json:"data"`
	Next   *string `json:"next"`
	Offset *string `json:"offset"`
	Total  *int    `json:"total"`
}

func (f *fixture) page(t rapid.TB, target string) pageDoc {
	t.Helper()
	w := f.do("GET", target, "")
	var p pageDoc
	if err := json.Unmarshal(w.Body.Bytes(), &p); w.Code != 200 || err != nil {
		t.Fatalf("%s: %d %s %v", target, w.Code, w.Body, err)
	}
	return p
}

// TestPagesCoverEverythingOnce follows next with every page size.
func TestPagesCoverEverythingOnce(t *testing.T) {
	const rows = 23
	f := setup(t, nil)
	f.do("POST", "/consumers", "username=owner")
	var all []string
	for i := range rows {
		id := fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)
		f.do("POST", "/consumers", "id="+id+"&username=c"+strconv.Itoa(i))
		f.do("POST", "/consumers/owner/oauth2", "id="+id+"&name=n&redirect_uris=http://a/")
		f.do("POST", "/oauth2_tokens", "id="+id+"&credential.id="+id+"&expires_in=0")
		all = append(all, id)
	}
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, rows+2).Draw(rt, "size")
		path := rapid.SampledFrom([]string{"/oauth2", "/oauth2_tokens", "/oauth2/"}).Draw(rt, "path")
		var got []string
		target := path + "?size=" + strconv.Itoa(size)
		for target != "" {
			p := f.page(rt, target)
			if len(p.Data) > size || p.Data == nil || len(got) > rows {
				rt.Fatalf("page of %d for size %d", len(p.Data), size)
			}
			for _, d := range p.Data {
				got = append(got, d.ID)
			}
			if (p.Total != nil) != (path == "/oauth2_tokens") || p.Total != nil && *p.Total != rows {
				rt.Fatalf("total %v", p.Total)
			}
			if (p.Next == nil) != (p.Offset == nil) {
				rt.Fatalf("next %v with offset %v", p.Next, p.Offset)
			}
			target = ""
			if p.Next != nil {
				target = *p.Next
			}
		}
		if diff := cmp.Diff(all, got); diff != "" {
			rt.Fatalf("pages differ: %s", diff)
		}
	})
	if p := f.page(t, "/consumers/owner/oauth2?size=5"); len(p.Data) != 5 || p.Next == nil || strings.Contains(*p.Next, "size") {
		t.Errorf("nested page %+v", p)
	}
	offset := *f.page(t, "/oauth2?size=1").Offset
	for _, other := range []string{"/consumers", "/consumers/owner/oauth2", "/oauth2_tokens"} {
		if w := f.do("GET", other+"?offset="+url.QueryEscape(offset), ""); w.Code != 400 {
			t.Errorf("%s takes the offset of another list: %d", other, w.Code)
		}
	}
}

// FuzzPaging: any offset, size or other query is answered with a page of at most that size,
// or with 400. If a page names a next one, that can be read.
func FuzzPaging(f *testing.F) {
	fx := setup(f, nil)
	populate(f, fx.store, 10, 2)
	fx.do("PUT", "/upstreams/u.example", `{}`)
	for i := range 5 {
		fx.do("POST", "/upstreams/u.example/targets", fmt.Sprintf(`{"target":"10.0.0.%d:80","tags":["common"]}`, i))
	}
	lists := []string{
		"/oauth2", "/consumers", "/consumers/owner/oauth2", "/consumers/owner/oauth2_tokens", "/oauth2_tokens", "/upstreams/u.example/targets",
		"/upstreams/u.example/health", "/tags", "/tags/common", "/services",
	}
	for i, seed := range [][2]string{
		{"", "10"}, {"-1", "-1"}, {"MQ==", "1e3"}, {"\x00", "NaN"}, {"b2F1dGgyCg", "99999999999999999999"}, {"", "0"}, {"", "1001"}, {"9223372036854775807", "1"}, {"", "2"}, {"", "+3"},
	} {
		f.Add(uint8(i), seed[0], seed[1], "")
		f.Add(uint8(i), seed[0], seed[1], "common")
		f.Add(uint8(i), seed[0], seed[1], "common/rare")
	}
	f.Fuzz(func(t *testing.T, list uint8, offset, size, tags string) {
		fx := *fx
		fx.t = t
		q := url.Values{"offset": {offset}, "size": {size}}
		if tags != "" {
			q.Set("tags", tags)
		}
		target := lists[int(list)%len(lists)] + "?" + q.Encode()
		w := fx.do("GET", target, "")
		if w.Code == 400 {
			return
		}
		var p pageDoc
		if err := json.Unmarshal(w.Body.Bytes(), &p); w.Code != 200 || err != nil {
			t.Fatalf("%s: %d %s", target, w.Code, w.Body)
		}
		if n, err := strconv.ParseFloat(size, 64); err == nil && (n < 1 || n > 1000 || len(p.Data) > int(n)) {
			t.Errorf("%s: a page of %d", target, len(p.Data))
		}
		if p.Next == nil {
			return
		}
		if w := fx.do("GET", *p.Next, ""); w.Code != 200 || len(p.Data) == 0 {
			t.Errorf("%s leads to %s: %d %s", target, *p.Next, w.Code, w.Body)
		}
	})
}

// FuzzWrite: any body is answered with 201, 400, 409 or 415. The first byte says to which collection
// it is sent: a mutated path would nearly never be one.
func FuzzWrite(f *testing.F) {
	collections := []string{"/services", "/plugins", "/routes", "/oauth2_tokens", "/consumers", "/oauth2"}
	f.Add(uint8(0), `{"host":"h","url":"http://x"}`)
	f.Add(uint8(1), `{"name":"oauth2","config":{"enable_password_grant":true,"scopes":[1]}}`)
	f.Add(uint8(2), "paths[1]=/a&paths[3]=/b&service.name=x&headers.a.b=1")
	f.Add(uint8(3), "credential[x]=1&credential.id=2&expires_in=1e9")
	f.Add(uint8(4), "username[a]=1&username=2&created_at=99999999999999999")
	f.Add(uint8(5), `{"name":"a","redirect_uris":["http://x"]}`)
	shared := setup(f, nil) // one for each input would take most of the time
	f.Fuzz(func(t *testing.T, which uint8, body string) {
		path := collections[int(which)%len(collections)]
		fx := *shared
		fx.t = t
		if w := fx.do("POST", path, body); !slices.Contains([]int{201, 400, 409, 415}, w.Code) {
			t.Errorf("%s %q: %d %s", path, body, w.Code, w.Body)
		}
	})
}

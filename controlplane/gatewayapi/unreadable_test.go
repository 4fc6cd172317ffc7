package gatewayapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/oauth"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// onDisk is an API on a database whose rows can be made undecodable.
type onDisk struct {
	*fixture
	path string
	log  *bytes.Buffer
}

func newOnDisk(t *testing.T) *onDisk {
	t.Helper()
	path := filepath.Join(t.TempDir(), "meshgate.db")
	keys, err := seal.New(make([]byte, seal.RootSize))
	if err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{
		Path: path, Kinds: gateway.Kinds(), Sealer: keys, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return epoch },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	d := &onDisk{path: path, log: &bytes.Buffer{}}
	d.fixture = setupWith(t, func(o *gatewayapi.Options) {
		o.Store, o.Gate = s, admit.New(s, newRevoker(), gateway.Kinds(), o.Now)
		o.Revocations = &oauth.Revocations{Store: s, Writer: o.Gate}
	})
	d.store = s
	d.handler = httpkit.Observe(http.MaxBytesHandler(d.api.Handler(), 1<<20), slog.New(slog.NewTextHandler(d.log, nil)))
	return d
}

// spoil makes rows undecodable.
func (d *onDisk) spoil(k *model.Kind, ids ...string) {
	d.t.Helper()
	storetest.Spoil(d.t, d.path, k.Name, ids...)
}

func idOf(sort, n int) string { return fmt.Sprintf("%08d-0000-4000-8000-%012d", n, sort) }

// The parts of ids for each kind.
const (
	sortService = iota + 1
	sortConsumer
	sortApp
	sortToken
	sortKey
	sortCert
)

// furnish makes five resources of each kind that is listed in several ways.
func (d *onDisk) furnish() {
	d.t.Helper()
	cert, key := admittest.Certificate(d.t)
	quoted := func(s string) string { return strings.ReplaceAll(s, "\n", `\n`) }
	for i := 1; i <= 5; i++ {
		d.must("PUT", "/services/"+idOf(sortService, i), fmt.Sprintf(`{"name":"s%d","host":"h","tags":["all","t%d"]}`, i, i))
		d.must("PUT", "/consumers/"+idOf(sortConsumer, i), fmt.Sprintf(`{"username":"c%d","custom_id":"x%[1]d"}`, i))
		d.must("PUT", "/consumers/c1/oauth2/"+idOf(sortApp, i), fmt.Sprintf(`{"name":"a","client_id":"app%d","client_secret":"x%[1]d","redirect_uris":["https://a.example/"]}`, i))
		d.must("PUT", "/oauth2_tokens/"+idOf(sortToken, i), fmt.Sprintf(`{"access_token":"at%d","expires_in":0,"credential":{"client_id":"app1"}}`, i))
		d.must("PUT", "/consumers/c1/key-auth/"+idOf(sortKey, i), fmt.Sprintf(`{"key":"k%d"}`, i))
	}
	d.must("PUT", "/certificates/"+idOf(sortCert, 1), `{"cert":"`+quoted(cert)+`","key":"`+quoted(key)+`","snis":["a.example","b.example"]}`)
}

// walk follows the pages of a list. It returns the ids, what each page lacks, and how the
// list ended.
func (d *onDisk) walk(target string) (ids []string, missing [][]string, end string) {
	d.t.Helper()
	for pages := 0; target != ""; pages++ {
		w := d.do("GET", target, "")
		if w.Code != 200 {
			return ids, missing, fmt.Sprintf("%d %s", w.Code, w.Body)
		}
		var p struct {
			pageDoc
			Unreadable []string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || pages > 20 {
			d.t.Fatalf("%v %s", err, w.Body)
		}
		for _, item := range p.Data {
			ids = append(ids, item.ID)
		}
		missing = append(missing, p.Unreadable)
		if target = ""; p.Next != nil {
			target = *p.Next
		}
	}
	return ids, missing, "all"
}

// TestListsWithUnreadableRows: a row that cannot be decoded does not hide others from a list.
// Each page names what it lacks, and the log has the reason once. The end of the list says
// that it is not complete.
func TestListsWithUnreadableRows(t *testing.T) {
	d := newOnDisk(t)
	d.furnish()
	d.spoil(gateway.Services, idOf(sortService, 2), idOf(sortService, 3), idOf(sortService, 5))
	d.spoil(gateway.Tokens, idOf(sortToken, 4))
	d.spoil(gateway.Keys, idOf(sortKey, 1))
	d.spoil(gateway.Applications, idOf(sortApp, 5))
	s := func(sort int, numbers ...int) (ids []string) {
		for _, n := range numbers {
			ids = append(ids, idOf(sort, n))
		}
		return ids
	}
	paths := func(collection string, ids []string) (out []string) {
		for _, id := range ids {
			out = append(out, "/"+collection+"/"+id)
		}
		return out
	}
	for _, tc := range []struct {
		target, collection string
		ids                []string
		missing            [][]string
	}{
		{"/services", "services", s(sortService, 1, 4), [][]string{s(sortService, 2, 3, 5)}},
		{"/services?size=1", "services", s(sortService, 1, 4), [][]string{nil, s(sortService, 2), s(sortService, 3), nil, s(sortService, 5)}},
		{"/services?size=2", "services", s(sortService, 1, 4), [][]string{s(sortService, 2), s(sortService, 3), s(sortService, 5)}},
		{"/services?tags=t2", "services", nil, [][]string{s(sortService, 2)}},
		{"/services?tags=t1/t3", "services", s(sortService, 1), [][]string{s(sortService, 3)}},
		{"/services?tags=all,t4", "services", s(sortService, 4), [][]string{nil}},
		{"/services?tags=t1", "services", s(sortService, 1), [][]string{nil}},
		{"/consumers", "consumers", s(sortConsumer, 1, 2, 3, 4, 5), [][]string{nil}},
		{"/oauth2_tokens?size=3", "oauth2_tokens", s(sortToken, 1, 2, 3, 5), [][]string{nil, s(sortToken, 4)}},
		{"/consumers/c1/oauth2_tokens", "oauth2_tokens", s(sortToken, 1, 2, 3, 5), [][]string{s(sortToken, 4)}},
		{"/consumers/c1/key-auth", "key-auths", s(sortKey, 2, 3, 4, 5), [][]string{s(sortKey, 1)}},
		{"/consumers/c1/oauth2", "oauth2", s(sortApp, 1, 2, 3, 4), [][]string{s(sortApp, 5)}},
	} {
		t.Run(tc.target, func(t *testing.T) {
			d.t = t
			d.log.Reset()
			ids, missing, end := d.walk(tc.target)
			if diff := cmp.Diff(tc.ids, ids); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
			var lost []string
			for i, m := range tc.missing {
				tc.missing[i] = paths(tc.collection, m)
				lost = append(lost, tc.missing[i]...)
			}
			if diff := cmp.Diff(tc.missing, missing); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
			if len(lost) == 0 {
				if end != "all" || strings.Contains(d.log.String(), "cause=") {
					t.Errorf("the end of a list that is whole: %s\n%s", end, d.log)
				}
				return
			}
			for _, text := range []string{"500 ", fmt.Sprintf("not complete: %d of", len(lost)), lost[0], "DELETE " + lost[0]} {
				if !strings.Contains(end, text) {
					t.Errorf("the end lacks %q: %s", text, end)
				}
			}
			for _, path := range lost {
				if n := strings.Count(d.log.String(), path); n != 1 {
					t.Errorf("the log names %s %d times:\n%s", path, n, d.log)
				}
			}
		})
	}
}

// TestUnreadableServerName: a list shows a certificate with its readable names. A call for
// the certificate alone fails, because it would look complete.
func TestUnreadableServerName(t *testing.T) {
	d := newOnDisk(t)
	d.furnish()
	sni := d.page(t, "/snis").Data[0].ID
	d.spoil(gateway.SNIs, sni)
	ids, missing, end := d.walk("/certificates")
	if diff := cmp.Diff([]any{[]string{idOf(sortCert, 1)}, [][]string{{"/snis/" + sni}}}, []any{ids, missing}); diff != "" || !strings.Contains(end, "DELETE /snis/"+sni) {
		t.Errorf("%s %s", diff, end)
	}
	if w := d.do("GET", "/certificates/"+idOf(sortCert, 1), ""); w.Code != 500 || !strings.Contains(w.Body.String(), "DELETE /snis/"+sni) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	d.must("PATCH", "/certificates/"+idOf(sortCert, 1), `{"tags":["renewed"]}`)
	d.must("DELETE", "/snis/"+sni, "")
	if _, _, end := d.walk("/certificates"); end != "all" {
		t.Errorf("after the repair: %s", end)
	}
	if w := d.do("GET", "/certificates/"+idOf(sortCert, 1), ""); w.Code != 200 {
		t.Errorf("after the repair: %d %s", w.Code, w.Body)
	}
}

// TestDeleteUnreadable: calls that need an unreadable row name it. It can be deleted by id,
// by name, and together with its owner.
func TestDeleteUnreadable(t *testing.T) {
	d := newOnDisk(t)
	d.furnish()
	d.spoil(gateway.Services, idOf(sortService, 1), idOf(sortService, 2))
	d.spoil(gateway.Consumers, idOf(sortConsumer, 2))
	d.spoil(gateway.Applications, idOf(sortApp, 1))
	d.spoil(gateway.Tokens, idOf(sortToken, 1), idOf(sortToken, 2))
	d.spoil(gateway.Keys, idOf(sortKey, 3))
	for _, tc := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"GET", "/services/" + idOf(sortService, 1), "", 500, "DELETE /services/" + idOf(sortService, 1) + " deletes it"},
		{"GET", "/services/s1", "", 500, "DELETE /services/" + idOf(sortService, 1)},
		{"PUT", "/services/s1", `{"host":"h"}`, 500, "DELETE /services/" + idOf(sortService, 1)},
		{"POST", "/services", `{"name":"s1","host":"h"}`, 500, "DELETE /services/" + idOf(sortService, 1)},
		{"GET", "/services/s1/routes", "", 500, "DELETE /services/" + idOf(sortService, 1)},
		{"GET", "/consumers?custom_id=x2", "", 500, "DELETE /consumers/" + idOf(sortConsumer, 2)},
		{"DELETE", "/consumers/c1/key-auth/" + idOf(sortKey, 3), "", 500, "DELETE /key-auths/" + idOf(sortKey, 3)},
		{"DELETE", "/services/" + idOf(sortService, 1), "", 204, ""},
		{"DELETE", "/services/s2", "", 204, ""},
		{"PUT", "/services/s1", `{"host":"h"}`, 200, ""},
		{"DELETE", "/consumers/c2", "", 204, ""},
		{"PUT", "/consumers/c2", `{}`, 200, ""},
		{"DELETE", "/oauth2_tokens/at2", "", 204, ""},
		{"DELETE", "/consumers/c1/oauth2_tokens", "", 200, `{"revoked":4}`},
		{"DELETE", "/consumers/c1", "", 204, ""},
		{"GET", "/oauth2_tokens", "", 200, `"data":[]`},
		{"GET", "/oauth2", "", 200, `"data":[]`},
		{"GET", "/key-auths", "", 200, `"data":[]`},
	} {
		w := d.do(tc.method, tc.path, tc.body)
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.text) {
			t.Errorf("%s %s: %d %s", tc.method, tc.path, w.Code, w.Body)
		}
	}
	w := d.do("GET", "/changes?kind=services&size=1000", "")
	gone := regexp.MustCompile(`"action":"deleted","kind":"service"[^{}]*"name":"`+idOf(sortService, 1)+`"`).FindAllString(w.Body.String(), -1)
	if len(gone) != 1 {
		t.Errorf("the changes do not say who deleted it: %s", w.Body)
	}
}

// TestTagsWithUnreadableRows: the tags of rows that cannot be decoded are unknown.
func TestTagsWithUnreadableRows(t *testing.T) {
	d := newOnDisk(t)
	d.furnish()
	d.spoil(gateway.Services, idOf(sortService, 2))
	for target, tags := range map[string]int{"/tags": 8, "/tags/all": 4, "/tags/t2": 0} {
		var p struct {
			Data       []any
			Unreadable []string
		}
		w := d.do("GET", target, "")
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || len(p.Data) != tags || !slices.Equal(p.Unreadable, []string{"/services/" + idOf(sortService, 2)}) {
			t.Errorf("%s: %v %d %s", target, err, w.Code, w.Body)
		}
	}
}

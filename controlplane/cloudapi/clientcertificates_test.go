package cloudapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// certGiven is a body with a certificate.
func certGiven(text string) string {
	quoted, _ := json.Marshal(text)
	return `{"cert":` + string(quoted) + `}`
}

// certificatesOf is the path of the client certificates of a control plane.
func certificatesOf(id string) string { return controlPlanes + "/" + id + "/dp-client-certificates" }

// pinned returns the id of a new client certificate.
func (f *planeFixture) pinned(plane, cert string) string {
	f.t.Helper()
	item, _ := f.expects(http.StatusCreated, http.MethodPost, certificatesOf(plane), certGiven(cert))["item"].(map[string]any)
	id, _ := item["id"].(string)
	return id
}

// TestClientCertificates: certificates of control planes and of groups, members of groups among them, are
// listed, replaced and deleted. After each that takes one away, nodes are judged before the answer, by what is
// listed then.
func TestClientCertificates(t *testing.T) {
	f := setupPlanes(t)
	shop, team := f.plane("shop", cloud.TypeHybrid), f.plane("team", cloud.TypeGroup)
	var gone []string
	var judged []bool // whether the team lists each of those that are gone, whenever nodes are judged
	f.api.Planes.Recheck = func(context.Context) {
		for _, cert := range gone {
			judged = append(judged, f.lists(team, cert))
		}
	}
	f.expects(http.StatusNoContent, http.MethodPost, controlPlanes+"/"+team+"/group-memberships/add", members(shop))
	one, _ := admittest.Certificate(t)
	two, _ := admittest.Certificate(t)
	three, _ := admittest.Certificate(t)
	for plane, cert := range map[string]string{shop: one, team: two} {
		id := f.pinned(plane, cert)
		want := fmt.Sprint(map[string]any{"item": map[string]any{"id": id, "cert": cert, "created_at": float64(epoch.Unix()), "updated_at": float64(epoch.Unix())}})
		if doc := f.expects(http.StatusOK, http.MethodGet, certificatesOf(plane)+"/"+id, ""); fmt.Sprint(doc) != want {
			t.Errorf("%v, want %s", doc, want)
		}
	}
	id := f.pinned(team, three)
	list := f.expects(http.StatusOK, http.MethodGet, certificatesOf(team)+"?page[size]=1&page[number]=2", "")
	if items, page := list["items"].([]any), list["page"].(map[string]any); len(items) != 1 || page["total"] != 2.0 || page["next"] != nil {
		t.Errorf("%v", list)
	}
	if page := f.expects(http.StatusOK, http.MethodGet, certificatesOf(team)+"?page[size]=1", "")["page"].(map[string]any); page["next"] != certificatesOf(team)+"?page%5Bnumber%5D=2&page%5Bsize%5D=1" {
		t.Errorf("%v", page)
	}
	four, _ := admittest.Certificate(t)
	gone = []string{three, four}
	body := strings.Replace(certGiven(four), "{", `{"title":"of the team",`, 1)
	if item := f.expects(http.StatusOK, http.MethodPut, certificatesOf(team)+"/"+id, body)["item"].(map[string]any); item["cert"] != four || item["title"] != "of the team" || !slices.Equal(judged, []bool{false, true}) {
		t.Errorf("%v, judged when listed: %v", item, judged)
	}
	if !f.lists(team, four) || f.lists(team, three) || !f.lists(shop, one) || f.lists(shop, four) || f.lists(team, one) {
		t.Error("certificates are not found by their fingerprints")
	}
	f.expects(http.StatusNoContent, http.MethodDelete, certificatesOf(team)+"/"+id, "")
	f.expects(http.StatusNotFound, http.MethodGet, certificatesOf(team)+"/"+id, "")
	if !slices.Equal(judged, []bool{false, true, false, false}) || f.lists(team, four) {
		t.Errorf("judged when listed: %v", judged)
	}
	f.expects(http.StatusNoContent, http.MethodDelete, controlPlanes+"/"+team, "")
	if f.lists(team, two) || !f.lists(shop, one) {
		t.Error("the certificates of a control plane go with it, and no others")
	}
}

// lists reports whether a control plane or group lists a certificate.
func (f *planeFixture) lists(plane, cert string) bool {
	err := f.store.View(f.t.Context(), func(r store.Reader) error {
		return cloud.Pinned(r, cloud.ScopeOf(plane), pemtext.Fingerprint(pemtext.First([]byte(cert)).Bytes))
	})
	if err != nil && !fault.Is(err, fault.NotFound) {
		f.t.Error(err)
	}
	return err == nil
}

// TestCertificateOfSomebodyElse: a certificate is public. Who lists that of another control plane changes
// nothing there, first or not, and takes nothing along with its own listing.
func TestCertificateOfSomebodyElse(t *testing.T) {
	f := setupPlanes(t)
	owner, stranger := f.plane("owner", cloud.TypeHybrid), f.plane("stranger", cloud.TypeHybrid)
	cert, _ := admittest.Certificate(t)
	first := f.pinned(stranger, cert)
	if f.lists(owner, cert) || f.lists(cloud.DefaultID, cert) || !f.lists(stranger, cert) {
		t.Error("a certificate counts where it is not listed")
	}
	id := f.pinned(owner, cert)
	if id == "" || id == first {
		t.Errorf("the owner's listing is %q, that of the stranger %q", id, first)
	}
	f.pinned(cloud.DefaultID, cert)
	f.expects(http.StatusNoContent, http.MethodDelete, certificatesOf(stranger)+"/"+first, "")
	if !f.lists(owner, cert) || f.lists(stranger, cert) || !f.lists(cloud.DefaultID, cert) {
		t.Error("the stranger has taken the certificate away from its owner, or kept it")
	}
	f.expects(http.StatusNotFound, http.MethodDelete, certificatesOf(stranger)+"/"+id, "")
	f.pinned(stranger, cert)
	f.expects(http.StatusNoContent, http.MethodDelete, controlPlanes+"/"+stranger, "")
	if !f.lists(owner, cert) {
		t.Error("the listing of the owner went with the stranger's control plane")
	}
}

// TestClientCertificateRefusals: what is no certificate, and one too many, is refused by its field, and
// never repeated in the answer.
func TestClientCertificateRefusals(t *testing.T) {
	f := setupPlanes(t)
	a, b := f.plane("aa", cloud.TypeHybrid), f.plane("bb", cloud.TypeHybrid)
	cert, key := admittest.Certificate(t)
	other, _ := admittest.Certificate(t)
	id := f.pinned(a, cert)
	third, _ := admittest.Certificate(t)
	second := f.pinned(b, other)
	f.pinned(b, third)
	const alone = "nothing beside it"
	for _, test := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", certificatesOf(a), `{}`, 400, `"cert" is required`},
		{"POST", certificatesOf(a), `{"cert":null}`, 400, `"cert" is required`},
		{"POST", certificatesOf(a), `{"cert":1}`, 400, "is_string"},
		{"POST", certificatesOf(a), `{"cert":""}`, 400, "cert"},
		{"POST", certificatesOf(a), certGiven("words"), 400, "must be a certificate in PEM"},
		{"POST", certificatesOf(a), certGiven(key), 400, "holds a private key"},
		{"POST", certificatesOf(a), certGiven(cert + key), 400, "holds a private key"},
		{"POST", certificatesOf(a), certGiven(cert + other), 400, alone},
		{"POST", certificatesOf(a), certGiven(cert + "words"), 400, alone},
		{"POST", certificatesOf(a), certGiven("words\n" + cert), 400, "must be a certificate in PEM"},
		{"POST", certificatesOf(a), certGiven(string(pemtext.Encode("PUBLIC KEY", []byte("x")))), 400, "must be a certificate in PEM"},
		{"POST", certificatesOf(a), certGiven(string(pemtext.Certificate([]byte("unreadable")))), 400, "can be parsed"},
		{"POST", certificatesOf(a), certGiven(strings.Repeat("x", 8193)), 400, "max_length"},
		{"POST", certificatesOf(a), certGiven(strings.Repeat("x", 20_000)), 413, ""},
		{"POST", certificatesOf(a), `{"cert":"x","colour":1}`, 400, "property colour should not exist"},
		{"POST", certificatesOf(a), `{"cert":"x","id":"` + id + `"}`, 400, "property id should not exist"},
		{"POST", certificatesOf(a), `{"cert":"x","control_plane":"` + b + `"}`, 400, "property control_plane should not exist"},
		{"POST", certificatesOf(a), strings.Replace(certGiven(cert), "{", `{"title":"`+strings.Repeat("t", 257)+`",`, 1), 400, "at most 256"},
		{"POST", certificatesOf(a), certGiven(cert), 409, "Client certificate with provided cert already exists."},
		{"POST", certificatesOf(a), certGiven(strings.TrimSpace(cert)), 409, "already exists"},
		{"PUT", certificatesOf(b) + "/" + second, certGiven(third), 409, "already exists"},
		{"PUT", certificatesOf(b) + "/" + id, certGiven(cert), 404, "not found"},
		{"GET", certificatesOf(b) + "/" + id, "", 404, "not found"},
		{"DELETE", certificatesOf(b) + "/" + id, "", 404, "not found"},
		{"POST", certificatesOf("10000000-0000-4000-8000-000000000000"), certGiven(cert), 404, "not found"},
		{"GET", certificatesOf("10000000-0000-4000-8000-000000000000"), "", 404, "not found"},
		{"GET", certificatesOf(a) + "?page[size]=x", "", 400, "is_number"},
		{"GET", certificatesOf(a) + "?colour=x", "", 400, "should not exist"},
		{"PATCH", certificatesOf(a) + "/" + id, `{}`, 405, ""},
	} {
		status, doc := f.do(test.method, test.path, test.body)
		text := fmt.Sprint(doc)
		if status != test.status || !strings.Contains(text, test.want) || strings.Contains(text, "BEGIN") {
			t.Errorf("%s %s %.60s: %d %s", test.method, test.path, test.body, status, text)
		}
	}
	for range cloud.MaxClientCertificates - 1 {
		more, _ := admittest.Certificate(t)
		f.pinned(a, more)
	}
	more, _ := admittest.Certificate(t)
	if doc := f.expects(http.StatusConflict, http.MethodPost, certificatesOf(a), certGiven(more)); !strings.Contains(fmt.Sprint(doc), "100 client certificates") {
		t.Errorf("%v", doc)
	}
	f.pinned(b, more)
}

// TestWhoMayListClientCertificates: what callers of each role in a control plane are answered by every
// endpoint of it that is about nodes.
func TestWhoMayListClientCertificates(t *testing.T) {
	f := setupPlanes(t)
	id := f.plane("shop", cloud.TypeHybrid)
	columns := []string{"admin", "admin@" + id, "editor@" + id, "viewer@" + id, "admin@default", ""}
	titles := []any{"method", "path", "admin", "admin of it", "editor of it", "viewer of it", "admin of another", "nobody"}
	const form = "%-8s%-72s%-7s%-13s%-14s%-14s%-18s%s\n"
	var b strings.Builder
	fmt.Fprintf(&b, form, titles...)
	for _, e := range f.api.planes().certificateEndpoints(controlPlanes + "/{" + pathID + "}") {
		cells := []any{e.Method, e.Pattern}
		path := strings.NewReplacer("{"+pathID+"}", id, "{"+pathCertificate+"}", "20000000-0000-4000-8000-000000000000").Replace(e.Pattern)
		for _, who := range columns {
			r := httptest.NewRequest(e.Method, path, http.NoBody)
			if who != "" {
				r.Header.Set("Authorization", "Bearer "+who)
			}
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, r)
			cells = append(cells, fmt.Sprint(w.Code))
		}
		fmt.Fprintf(&b, form, cells...)
	}
	golden.Compare(t, filepath.Join("testdata", "certificate-roles.txt"), []byte(b.String()))
}

// TestClientCertificateRecord: the history says who let which nodes in.
func TestClientCertificateRecord(t *testing.T) {
	f := setupPlanes(t)
	cert, _ := admittest.Certificate(t)
	id := f.pinned(cloud.DefaultID, cert)
	f.expects(http.StatusNoContent, http.MethodDelete, certificatesOf(cloud.DefaultID)+"/"+id, "")
	var got []string
	err := f.store.View(t.Context(), func(r store.Reader) error {
		records, err := r.Records(store.RecordQuery{Limit: 10})
		for _, record := range records {
			if record.Key.Kind == cloud.ClientCertificates.Name {
				got = append(got, fmt.Sprint(record.Op, " ", record.Key.Name == id))
			}
		}
		return err
	})
	if want := []string{"deleted true", "created true"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

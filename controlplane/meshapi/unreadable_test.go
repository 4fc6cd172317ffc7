package meshapi

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestListsWithUnreadableRows: a row that cannot be read takes no other one from a
// list, which says that something is missing, and goes on behind it.
func TestListsWithUnreadableRows(t *testing.T) {
	bad := &storetest.Unreadable{}
	a := newAPI(t, func(o *Options) { bad.Store, o.Store = o.Store, bad })
	var log bytes.Buffer
	a.handler = httpkit.Observe(a.handler, slog.New(slog.NewTextHandler(&log, nil)))
	for _, m := range []string{"m", "n", "o"} {
		a.put(t, "/meshes/"+m, `{"type":"Mesh","name":"`+m+`"}`)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			a.put(t, "/meshes/"+m+"/dataplanes/"+name, dataplane(m, name, "s"))
		}
	}
	bad.Spoil(mesh.Meshes, "", "o", true)
	for _, name := range []string{"b", "c", "e"} {
		bad.Spoil(mesh.Dataplanes, "m", name, true)
	}
	for _, tc := range []struct {
		path  string
		total int
		want  string
		// unreadable are those that each page misses.
		unreadable []int
	}{
		{"/meshes", 3, "m n", []int{1}},
		{"/meshes?size=1", 3, "m n", []int{0, 0, 1}},
		{"/meshes/m/dataplanes", 5, "a d", []int{3}},
		{"/meshes/m/dataplanes?size=1", 5, "a d", []int{0, 1, 1, 0, 1}},
		{"/meshes/m/dataplanes?size=2", 5, "a d", []int{1, 1, 1}},
		{"/meshes/n/dataplanes?size=4", 5, "a b c d e", []int{0, 0}},
		{"/meshes/m/dataplanes?tag=mesh.io/service:s", 2, "a d", []int{3}},
		{"/meshes/m/dataplanes+insights", 5, "a d", []int{3}},
		// Nobody knows what is in a mesh that cannot be read.
		{"/dataplanes", 10, "a d a b c d e", []int{4}},
	} {
		t.Run(tc.path, func(t *testing.T) {
			log.Reset()
			var got []string
			var missing []int
			for path := tc.path; path != ""; {
				rec := request(a.handler, "GET", path, "")
				p := readPage(t, rec)
				var more struct{ Unreadable int }
				if err := json.Unmarshal(rec.Body.Bytes(), &more); err != nil || p.Total != tc.total || len(missing) > p.Total {
					t.Fatalf("%v %s", err, rec.Body)
				}
				for _, item := range p.Items {
					got = append(got, item.Name)
				}
				missing = append(missing, more.Unreadable)
				if path = ""; p.Next != nil {
					next, err := url.Parse(*p.Next)
					if err != nil {
						t.Fatal(err)
					}
					path = next.RequestURI()
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.unreadable, missing); diff != "" {
				t.Errorf("missing from each page (-want +got):\n%s", diff)
			}
			if whole := !strings.Contains(log.String(), "decoding a row"); whole != strings.HasPrefix(tc.path, "/meshes/n") {
				t.Errorf("the log: %s", log.String())
			}
		})
	}
}

// TestDeleteUnreadable: what cannot be read can be deleted.
func TestDeleteUnreadable(t *testing.T) {
	bad := &storetest.Unreadable{}
	a := newAPI(t, func(o *Options) { bad.Store, o.Store = o.Store, bad })
	a.put(t, "/meshes/m", `{"type":"Mesh","name":"m"}`)
	for _, name := range []string{"a", "b"} {
		a.put(t, "/meshes/m/dataplanes/"+name, dataplane("m", name, "s"))
	}
	bad.Spoil(mesh.Dataplanes, "m", "a", true)
	if rec := request(a.handler, "GET", "/meshes/m/dataplanes/a", ""); rec.Code != 500 {
		t.Errorf("read: %d %s", rec.Code, rec.Body)
	}
	for _, name := range []string{"a", "b"} {
		if rec := request(a.handler, "DELETE", "/meshes/m/dataplanes/"+name, ""); rec.Code != 200 {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
		bad.Spoil(mesh.Meshes, "", "m", true)
	}
	if rec := request(a.handler, "DELETE", "/meshes/m", ""); rec.Code != 200 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

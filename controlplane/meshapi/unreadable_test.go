package meshapi

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestListsWithUnreadableRows: a row that cannot be read does not hide others from a list.
// The list says that something is missing, and goes on after it. It is the same with a directory
// and without one.
func TestListsWithUnreadableRows(t *testing.T) {
	t.Run("directory", func(t *testing.T) {
		listsWithUnreadableRows(t, func(s store.Store) Directory { return newCensus(t, s, testKinds()) })
	})
	t.Run("store", func(t *testing.T) {
		listsWithUnreadableRows(t, func(store.Store) Directory { return nil })
	})
}

func listsWithUnreadableRows(t *testing.T, directory func(store.Store) Directory) {
	t.Helper()
	bad := &storetest.Unreadable{}
	a := newAPI(t, func(o *Options) {
		bad.Store, o.Store = o.Store, bad
		o.Directory = directory(bad)
	})
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
		// unreadable is the number of rows that each page misses.
		unreadable []int
	}{
		{"/meshes", 3, "m n", []int{1}},
		{"/meshes?size=1", 3, "m n", []int{0, 0, 1}},
		{"/meshes/m/dataplanes", 5, "a d", []int{3}},
		{"/meshes/m/dataplanes?size=1", 5, "a d", []int{0, 1, 1, 0, 1}},
		{"/meshes/m/dataplanes?size=2", 5, "a d", []int{1, 1, 1}},
		{"/meshes/n/dataplanes?size=4", 5, "a b c d e", []int{0, 0}},
		{"/meshes/m/dataplanes?tag=mesh.io/service:s", 2, "a d", []int{3}},
		{"/meshes/m/dataplanes?tag=mesh.io/service:s&size=1", 2, "a d", []int{3, 3}},
		{"/meshes/m/dataplane-insights", 0, "", []int{3}},
		{"/meshes/m/dataplanes+insights", 5, "a d", []int{3}},
		// The content of a mesh that cannot be read is unknown.
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

// newOnDisk returns an API whose rows can be made unreadable.
func newOnDisk(t *testing.T) (a *api, spoil func(k *model.Kind, names ...string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "meshgate.db")
	keys, err := seal.New(make([]byte, seal.RootSize))
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{now: start}
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: path, Kinds: testKinds(), Sealer: keys, Log: slog.New(slog.DiscardHandler), Now: c.tick})
	if err != nil {
		t.Fatal(err)
	}
	return newAPIOn(t, s, c), func(k *model.Kind, names ...string) { storetest.Spoil(t, path, k.Name, names...) }
}

// TestDeleteUnreadable: a row that cannot be read can be deleted, alone or with its mesh, and
// its name can be used again.
func TestDeleteUnreadable(t *testing.T) {
	a, spoil := newOnDisk(t)
	a.put(t, "/meshes/m", `{"type":"Mesh","name":"m"}`)
	for _, name := range []string{"a", "b", "c"} {
		a.put(t, "/meshes/m/dataplanes/"+name, dataplane("m", name, "s"))
	}
	spoil(mesh.Dataplanes, "a", "c")
	expect := func(method, path string, status int) {
		t.Helper()
		if rec := request(a.handler, method, path, ""); rec.Code != status {
			t.Errorf("%s %s: %d %s", method, path, rec.Code, rec.Body)
		}
	}
	expect("GET", "/meshes/m/dataplanes/a", 500)
	expect("DELETE", "/meshes/m/dataplanes/a", 200)
	expect("GET", "/meshes/m/dataplanes/a", 404)
	a.put(t, "/meshes/m/dataplanes/a", dataplane("m", "a", "s"))
	expect("GET", "/meshes/m/dataplanes/a", 200)
	expect("DELETE", "/meshes/m/dataplanes/a", 200)
	expect("DELETE", "/meshes/m/dataplanes/b", 200)
	spoil(mesh.Meshes, "m")
	expect("GET", "/meshes/m", 500)
	expect("DELETE", "/meshes/m/dataplanes/c", 200)
	expect("DELETE", "/meshes/m", 200)
	expect("GET", "/meshes/m", 404)
	a.put(t, "/meshes/m", `{"type":"Mesh","name":"m"}`)
}

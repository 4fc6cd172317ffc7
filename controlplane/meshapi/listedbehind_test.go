package meshapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestListsOfADirectoryThatIsBehind: a list that the store answers as well, because nothing but a name
// decides, waits for no directory. One that would read everything waits a moment.
func TestListsOfADirectoryThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer func() { _ = s.Close() }()
		fill(t, s, 3)
		fillExternal(t, s, 3)
		a := &API{Options{Store: s, Kinds: testKinds(), Directory: census.New(census.Options{Store: s, Kinds: testKinds()})}} // it never runs
		for _, k := range []*model.Kind{mesh.Dataplanes, mesh.ExternalServices} {
			pattern := prefixAll + k.Path
			for query, want := range map[string]struct {
				total  int
				waited time.Duration
			}{
				"": {6, 0}, "size=2&offset=1": {6, 0}, "name=000001": {2, 0},
				"tag=mesh.io/service:s1": {2, directoryPatience}, "filter[labels.team]=t1": {2, directoryPatience},
			} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				began, rec := time.Now(), httptest.NewRecorder()
				collection{a, k}.list(pattern)(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, pattern+"?"+query, nil))
				cancel()
				if p := readPage(t, rec); p.Total != want.total {
					t.Errorf("%s?%s: %s", pattern, query, rec.Body)
				}
				if waited := time.Since(began); waited != want.waited {
					t.Errorf("%s?%s: an answer after %s, want %s", pattern, query, waited, want.waited)
				}
			}
		}
	})
}

// changing is a directory after whose answers something is written.
type changing struct {
	Directory
	write func()
}

func (c changing) Find(ctx context.Context, s census.Search) (*census.Found, error) {
	found, err := c.Directory.Find(ctx, s)
	c.write()
	return found, err
}

// TestRowsThatMatchNoMore: a row that is changed after it was looked up, and before it is read, is not shown
// by a filter that it does not pass. As with one that is deleted then, the list goes on behind its place.
func TestRowsThatMatchNoMore(t *testing.T) {
	a := newAPI(t)
	proxy := func(i int, version string) *model.Resource {
		return &model.Resource{Kind: mesh.Dataplanes, Scope: "m", Name: fmt.Sprint("web-", i), Spec: &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Inbound: []mesh.Inbound{
			{Port: 80, Tags: mesh.Tags{mesh.TagService: "s", "version": version}},
		}}}}
	}
	write := func(f func(store.Tx) error) {
		t.Helper()
		if _, err := a.store.Update(t.Context(), model.Config, f); err != nil {
			t.Fatal(err)
		}
	}
	write(func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: mesh.Meshes, Name: "m", Spec: &mesh.Mesh{}})
		for i := range 6 {
			if err == nil {
				_, err = tx.Create(proxy(i, "v1"))
			}
		}
		return err
	})
	var change func(store.Tx) error
	a.options.Directory = changing{a.options.Directory, func() { write(change) }}
	h := Handler(a.options)
	for _, step := range []struct {
		change func(store.Tx) error
		query  string
		names  string
		total  int
		next   string
	}{
		{func(tx store.Tx) error { _, err := tx.Update(proxy(1, "v2"), 0); return err }, "size=2", "web-0", 6, "offset=2"},
		{func(tx store.Tx) error { return tx.Delete(mesh.Dataplanes, "m", "web-0", 0) }, "size=2", "web-2", 5, "offset=2"},
		{func(tx store.Tx) error { _, err := tx.Update(proxy(2, "v2"), 0); return err }, "size=1", "", 4, "offset=1"},
		{func(tx store.Tx) error { _, err := tx.Update(proxy(5, "v2"), 0); return err }, "size=2&offset=1", "web-4", 3, ""},
	} {
		change = step.change
		p := readPage(t, request(h, http.MethodGet, "/meshes/m/dataplanes?tag=version:v1&"+step.query, ""))
		var names []string
		for _, item := range p.Items {
			names = append(names, item.Name)
		}
		if strings.Join(names, " ") != step.names || p.Total != step.total || (p.Next == nil) != (step.next == "") || p.Next != nil && !strings.Contains(*p.Next, step.next) {
			t.Errorf("%s: %v of %d, then %v; want %+v", step.query, names, p.Total, p.Next, step)
		}
	}
}

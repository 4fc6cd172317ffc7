package meshapi

import (
	"context"
	"fmt"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// counting counts the rows that lists of a store return, which a store on disk decodes.
type counting struct {
	store.Store
	rows int
}

// View implements store.Store.
func (c *counting) View(ctx context.Context, fn func(store.Reader) error) error {
	return c.Store.View(ctx, func(r store.Reader) error { return fn(countingReader{r, c}) })
}

type countingReader struct {
	store.Reader
	c *counting
}

// List implements store.Reader.
func (r countingReader) List(k *model.Kind, q store.Query) ([]*model.Resource, error) {
	list, err := r.Reader.List(k, q)
	r.c.rows += len(list)
	return list, err
}

// fill stores two meshes with n dataplanes each.
func fill(t testing.TB, s store.Store, n int) {
	t.Helper()
	_, err := s.Update(context.Background(), model.Config, func(tx store.Tx) error {
		for _, m := range []string{"one", "two"} {
			if _, err := tx.Create(&model.Resource{Kind: mesh.Meshes, Name: m, Spec: &mesh.Mesh{}}); err != nil {
				return err
			}
			for i := range n {
				d := &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Inbound: []mesh.Inbound{{
					Port: 80, Tags: mesh.Tags{mesh.TagService: fmt.Sprint("s", i%10)},
				}}}}
				d.Labels = map[string]string{"team": fmt.Sprint("t", i%10)}
				if _, err := tx.Create(&model.Resource{Kind: mesh.Dataplanes, Scope: m, Name: fmt.Sprintf("web-%06d", i), Spec: d}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPagesReadWhatTheyShow: the cost of a page depends on its size and not on that of the
// list, wherever the page is, and with a filter by names too, also where no directory is.
func TestPagesReadWhatTheyShow(t *testing.T) {
	c := &counting{}
	a := newAPI(t, func(o *Options) { c.Store, o.Store, o.Directory = o.Store, c, nil })
	fill(t, a.store, 1000)
	for _, tc := range []struct {
		path         string
		total, shown int
		first        string
	}{
		{"/dataplanes?size=100", 2000, 100, "one/web-000000"},
		{"/dataplanes?size=100&offset=950", 2000, 100, "one/web-000950"},
		{"/dataplanes?size=100&offset=1990", 2000, 10, "two/web-000990"},
		{"/dataplanes?size=100&offset=3000", 2000, 0, ""},
		{"/meshes/two/dataplanes?size=100&offset=500", 1000, 100, "two/web-000500"},
		{"/meshes/one/dataplanes?size=100&name=99", 19, 19, "one/web-000099"},
		{"/dataplanes?size=10&offset=15&name=-00099", 20, 5, "two/web-000995"},
	} {
		c.rows = 0
		p := readPage(t, request(a.handler, "GET", tc.path, ""))
		first := ""
		if len(p.Items) > 0 {
			first = p.Items[0].Mesh + "/" + p.Items[0].Name
		}
		if p.Total != tc.total || len(p.Items) != tc.shown || first != tc.first {
			t.Errorf("%s: %d of %d beginning with %s", tc.path, len(p.Items), p.Total, first)
		}
		// The meshes are read in addition to the page.
		if c.rows > tc.shown+2 {
			t.Errorf("%s: read %d rows for a page of %d", tc.path, c.rows, tc.shown)
		}
	}
}

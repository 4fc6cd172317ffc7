package meshapi

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// mixed is one of several sorts of dataplanes.
func mixed(i int) *mesh.Dataplane {
	n := &mesh.Networking{Address: "10.0.0.1"}
	switch i % 4 {
	case 0:
		n.Gateway = &mesh.Gateway{Tags: mesh.Tags{mesh.TagService: "edge", "version": fmt.Sprint("v", i%3)}}
	case 1:
		n.Gateway = &mesh.Gateway{Type: mesh.GatewayBuiltin, Tags: mesh.Tags{mesh.TagService: "edge"}}
	default:
		for port := range i % 3 {
			n.Inbound = append(n.Inbound, mesh.Inbound{Port: uint32(80 + port), Tags: mesh.Tags{mesh.TagService: fmt.Sprint("s", (i+port)%5), "version": fmt.Sprint("v", i%2)}})
		}
	}
	d := &mesh.Dataplane{Networking: n}
	if i%5 > 0 {
		d.Labels = map[string]string{"team": fmt.Sprint("t", i%5), "mesh.io/env": "test"}
	}
	return d
}

// outside is one of several sorts of ExternalServices.
func outside(i int) *mesh.ExternalService {
	x := &mesh.ExternalService{Networking: &mesh.ExternalNetworking{Address: "x.example:443"}, Tags: mesh.Tags{mesh.TagService: fmt.Sprint("s", i%5), "version": fmt.Sprint("v", i%2)}}
	if i%3 > 0 {
		x.Labels = map[string]string{"team": fmt.Sprint("t", i%5), "mesh.io/env": "test"}
	}
	return x
}

// asking is one of several sorts of policies.
func asking(i int) *ticket {
	p := &ticket{Connection: mesh.Connection{Destinations: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "nobody"}}}}}
	if i%3 > 0 {
		p.Labels = map[string]string{"team": fmt.Sprint("t", i%5), "mesh.io/env": "test"}
	}
	return p
}

// queriesOfLists are filters in all their forms, and pages of what they find.
var queriesOfLists = []string{
	"tag=mesh.io/service:s3", "tag=mesh.io/service:*", "tag=version:v1&tag=mesh.io/service:s2", "tag=nobody:has", "tag=malformed", "gateway=true", "gateway=false", "gateway=builtin",
	"gateway=delegated&tag=version:v2", "gateway=wrong", "name=1&gateway=true", "tag=mesh.io/service:s&size=3&offset=4", "gateway=false&offset=1000", "gateway=true&offset=-1", "tag=mesh.io/service:s1&size=2000", "",
	"filter[labels.team]=t3", "filter[labels.team]=t3&filter[labels.mesh.io/env]=test&size=2&offset=1", "filter[labels.team]=t", "filter[labels.team]=", "filter%5Blabels.team%5D=t1&gateway=true", "filter[name]=web",
}

// TestFilteredListsOfTheDirectory: a list that the directory filters is that which reads everything
// would be, whatever is filtered by, whoever asks, and right after each write.
func TestFilteredListsOfTheDirectory(t *testing.T) {
	c := &counting{}
	a := newAPI(t, func(o *Options) { c.Store, o.Store = o.Store, c })
	listing := a.handler
	a.options.Directory = nil
	reading := Handler(a.options)
	write := func(f func(store.Tx) error) {
		t.Helper()
		if _, err := a.store.Update(context.Background(), model.Config, f); err != nil {
			t.Fatal(err)
		}
	}
	compare := func(when string) {
		t.Helper()
		if _, _, err := a.options.Census.Now(t.Context()); err != nil { // which some lists do not wait for
			t.Fatal(err)
		}
		for _, path := range []string{"/dataplanes", "/meshes/one/dataplanes", "/meshes/none/dataplanes", "/dataplanes+insights", "/meshes/two/dataplanes/_overview", "/dataplane-insights", "/meshes/one/dataplane-insights", "/meshes/one/tickets/some/_resources/dataplanes", "/external-services", "/meshes/two/external-services", "/meshes/none/external-services", "/tickets", "/meshes/two/tickets"} {
			for _, query := range queriesOfLists {
				for _, user := range []string{"", "viewer-m"} {
					want := request(reading, http.MethodGet, path+"?"+query, "", "X-User", user)
					c.rows = 0
					got := request(listing, http.MethodGet, path+"?"+query, "", "X-User", user)
					if d := cmp.Diff(want.Body.String(), got.Body.String()); d != "" || want.Code != got.Code {
						t.Errorf("%s: %s?%s as %q: %d and %d (-read +listed):\n%s", when, path, query, user, want.Code, got.Code, d)
					}
					if c.rows > 3 { // the meshes
						t.Errorf("%s?%s has listed %d rows", path, query, c.rows)
					}
				}
			}
		}
	}
	write(func(tx store.Tx) error {
		for _, m := range []string{"one", "two", "m"} {
			if _, err := tx.Create(&model.Resource{Kind: mesh.Meshes, Name: m, Spec: &mesh.Mesh{}}); err != nil {
				return err
			}
			some := &ticket{Connection: mesh.Connection{Destinations: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "s1", "version": "v1"}}, {Match: mesh.Tags{mesh.TagService: "edge", "version": mesh.AnyValue}}}}}
			if _, err := tx.Create(&model.Resource{Kind: tickets, Scope: m, Name: "some", Spec: some}); err != nil {
				return err
			}
			for i := range 40 {
				if _, err := tx.Create(&model.Resource{Kind: mesh.Dataplanes, Scope: m, Name: fmt.Sprint("web-", i), Spec: mixed(i)}); err != nil {
					return err
				}
				if _, err := tx.Create(&model.Resource{Kind: mesh.ExternalServices, Scope: m, Name: fmt.Sprint("web-", i), Spec: outside(i)}); err != nil {
					return err
				}
				if _, err := tx.Create(&model.Resource{Kind: tickets, Scope: m, Name: fmt.Sprint("web-", i), Spec: asking(i)}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	compare("at first")
	write(func(tx store.Tx) error {
		for i := range 10 {
			if _, err := tx.Update(&model.Resource{Kind: mesh.Dataplanes, Scope: "one", Name: fmt.Sprint("web-", 2*i), Spec: mixed(2*i + 1)}, 0); err != nil {
				return err
			}
			if _, err := tx.Update(&model.Resource{Kind: mesh.ExternalServices, Scope: "two", Name: fmt.Sprint("web-", 2*i), Spec: outside(2*i + 1)}, 0); err != nil {
				return err
			}
			if _, err := tx.Update(&model.Resource{Kind: tickets, Scope: "two", Name: fmt.Sprint("web-", 2*i), Spec: asking(2*i + 1)}, 0); err != nil {
				return err
			}
		}
		return nil
	})
	compare("after changes")
	write(func(tx store.Tx) error {
		for i := range 20 {
			for _, k := range []*model.Kind{mesh.Dataplanes, mesh.ExternalServices, tickets} {
				if err := tx.Delete(k, "one", fmt.Sprint("web-", i), 0); err != nil {
					return err
				}
			}
		}
		_, err := tx.Create(&model.Resource{Kind: mesh.Dataplanes, Scope: "two", Name: "zzz", Spec: mixed(3)})
		return err
	})
	compare("after deletions")
}

// ignorant is a directory that never knows what was written last.
type ignorant struct{}

func (ignorant) Find(context.Context, census.Search) (*census.Found, error) {
	return nil, fault.New(fault.Unavailable, "not counted yet")
}

// TestListsWithoutAKnowingDirectory: a list is answered by reading everything then.
func TestListsWithoutAKnowingDirectory(t *testing.T) {
	a := newAPI(t)
	fill(t, a.store, 3)
	want := request(a.handler, http.MethodGet, "/dataplanes?tag=mesh.io/service:s1", "")
	a.options.Directory = ignorant{}
	got := request(Handler(a.options), http.MethodGet, "/dataplanes?tag=mesh.io/service:s1", "")
	if p := readPage(t, got); p.Total != 2 || got.Body.String() != want.Body.String() {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

package scopes_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestListByAReferenceToAnyMember: what is for a service is found whichever members both are
// of, page by page; a query may say of which member the service is.
func TestListByAReferenceToAnyMember(t *testing.T) {
	rows := []*model.Resource{row("b", gateway.Services, "svc", &gateway.Service{Name: "b"}), row("c", gateway.Services, "svc", &gateway.Service{Name: "c"})}
	for _, scope := range []string{"a", "b", "c"} {
		rows = append(rows, row(scope, gateway.Consumers, "of "+scope, &gateway.Consumer{Username: scope}),
			row(scope, gateway.Applications, "of "+scope, &gateway.Application{ClientID: scope, ClientSecret: scope, Consumer: "of " + scope}))
		for n := range 2 {
			name := fmt.Sprint(n, scope)
			rows = append(rows, row(scope, gateway.Tokens, name, &gateway.Token{Credential: "of " + scope, Service: "svc", ServicePlane: "b", AccessToken: name}))
		}
	}
	rows = append(rows, row("a", gateway.Tokens, "3", &gateway.Token{Credential: "of a", Service: "svc", ServicePlane: "c", AccessToken: "3"}))
	s := filled(t, rows...)
	q := store.Query{Index: gateway.RefService, Value: "svc"}
	page, of := q, q
	page.Skip, page.Limit, of.Of = 1, 2, "c"
	if err := s.View(t.Context(), func(r store.Reader) error {
		for _, c := range []struct {
			q       store.Query
			members []string
			want    []string
		}{
			{q, []string{"a", "b"}, []string{"0a", "0b", "1a", "1b"}},
			{page, []string{"a", "b"}, []string{"0b", "1a"}},
			{q, []string{"a"}, nil},
			{of, []string{"a", "c"}, []string{"3"}},
		} {
			list, err := scopes.Union(r, c.members...).List(gateway.Tokens, c.q)
			var got []string
			for _, res := range list {
				got = append(got, res.Name)
			}
			if !slices.Equal(got, c.want) || err != nil {
				t.Errorf("%+v of %v: %v, %v, want %v", c.q, c.members, got, err, c.want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

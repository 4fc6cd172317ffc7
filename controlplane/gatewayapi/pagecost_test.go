package gatewayapi_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// counting counts the rows that lists of a store return, which a store on disk decodes.
type counting struct {
	store.Store
	rows, lists int
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
	r.c.lists++
	return list, err
}

// populate stores n applications of one consumer, each with tokens.
func populate(t testing.TB, s store.Store, apps, tokens int) {
	t.Helper()
	const scope = model.DefaultControlPlane
	_, err := s.Update(context.Background(), model.Config, func(tx store.Tx) error {
		create := func(k *model.Kind, name string, spec any) error {
			_, err := tx.Create(&model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec})
			return err
		}
		if err := create(gateway.Consumers, ownerID, &gateway.Consumer{Username: "owner"}); err != nil {
			return err
		}
		for i := range apps {
			id := fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)
			tags := []string{"common"}
			if i%(apps/10) == apps/20 {
				tags = append(tags, "rare")
			}
			app := &gateway.Application{Consumer: ownerID, Name: "n", ClientID: id, ClientSecret: id, ClientType: gateway.ClientPublic, RedirectURIs: []string{"https://a.example/"}, Tags: tags}
			if err := create(gateway.Applications, id, app); err != nil {
				return err
			}
			for j := range tokens {
				token := fmt.Sprintf("%08d-0000-4000-9000-%012d", j, i)
				if err := create(gateway.Tokens, token, &gateway.Token{Credential: id, TokenType: "bearer", AccessToken: token}); err != nil {
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

// costs lists what is read for a page of each list. A list that reads one more row than
// before fails here; if that is intended, change the figure.
var costs = []struct {
	name, path string
	// rows and lists are the exact numbers of rows and lists that are read for one page;
	// shown is the number of items on it.
	rows, lists, shown int
}{
	{"a page", "/oauth2?size=100", 101, 1, 100},
	{"below an owner", "/consumers/owner/oauth2?size=100", 101, 1, 100},
	{"by a tag", "/oauth2?tags=common&size=100", 101, 1, 100},
	{"by two tags", "/oauth2?tags=common,rare&size=100", 10, 1, 10},
	{"by either tag", "/oauth2?tags=common/rare&size=100", 114, 3, 100},
	{"below an owner by a tag, a full page", "/consumers/owner/oauth2?tags=rare&size=1", 200, 2, 1},
	{"tokens with their number", "/oauth2_tokens?size=100", 101, 1, 100},
	{"tokens of a consumer", "/consumers/owner/oauth2_tokens?size=100", 1000 + 2*1000, 1 + 1000, 100}, // the owner's applications, two tokens of each
	{"tags", "/tags/common?size=100", 101, 5, 100},
}

// TestPagesReadWhatTheyShow: the cost of a page depends on its size, not on that of the list.
func TestPagesReadWhatTheyShow(t *testing.T) {
	var c *counting
	f := setupWith(t, func(o *gatewayapi.Options) {
		c = &counting{Store: o.Store}
		o.Store = c
	})
	populate(t, c.Store, 1000, 3)
	for _, tc := range costs {
		c.rows, c.lists = 0, 0
		w := f.do("GET", tc.path, "")
		shown := strings.Count(w.Body.String(), `"name":"n"`) + strings.Count(w.Body.String(), `"token_type"`) + strings.Count(w.Body.String(), `"entity_id"`)
		if w.Code != 200 || shown != tc.shown {
			t.Errorf("%s: %d with %d items, want %d", tc.name, w.Code, shown, tc.shown)
		}
		if c.rows != tc.rows || c.lists != tc.lists {
			t.Errorf("%s: read %d rows in %d lists, want %d in %d", tc.name, c.rows, c.lists, tc.rows, tc.lists)
		}
	}
}

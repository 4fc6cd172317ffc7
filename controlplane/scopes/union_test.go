package scopes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// filled is a store with some rows.
func filled(t *testing.T, rows ...*model.Resource) store.Store {
	t.Helper()
	s := memstore.New()
	t.Cleanup(func() { s.Close() })
	if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		for _, r := range rows {
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// over reads the union of members a, b and c of a store with some rows.
func over(t *testing.T, read func(scopes.Source), rows ...*model.Resource) {
	t.Helper()
	if err := filled(t, rows...).View(t.Context(), func(r store.Reader) error {
		read(scopes.Union(r, "c", "a", "b"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func row(scope string, k *model.Kind, name string, spec any) *model.Resource {
	return &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
}

// TestPagesOfAGroup compares every page of a group with the same part of the whole list.
// One member has most of the rows, so that pages lie within it, across it and behind it.
func TestPagesOfAGroup(t *testing.T) {
	var rows []*model.Resource
	var all []string
	for i, scope := range strings.Split("bbbbacabb", "") {
		name := fmt.Sprint("n", i)
		rows = append(rows, row(scope, gateway.Services, name, &gateway.Service{Name: name}))
		all = append(all, scope+" "+name)
	}
	over(t, func(src scopes.Source) {
		page := func(q store.Query) []string {
			list, err := src.List(gateway.Services, q)
			if err != nil {
				t.Fatal(err)
			}
			out := []string{}
			for _, res := range list {
				out = append(out, res.Scope+" "+res.Name)
			}
			return out
		}
		for skip := range len(all) + 2 {
			for limit := range len(all) + 2 { // 0 is all
				rest := all[min(skip, len(all)):]
				if limit > 0 {
					rest = rest[:min(limit, len(rest))]
				}
				if diff := cmp.Diff(append([]string{}, rest...), page(store.Query{Skip: skip, Limit: limit})); diff != "" {
					t.Errorf("skip %d, limit %d (-want +got):\n%s", skip, limit, diff)
				}
			}
		}
		if diff := cmp.Diff(all[5:7], page(store.Query{After: "n3", Skip: 1, Limit: 2})); diff != "" {
			t.Errorf("after one (-want +got):\n%s", diff)
		}
	}, rows...)
}

// TestSharedSecretsAreNobodys has two members with one key: whoever meets it is told of
// both, by whatever read, and never of the key.
func TestSharedSecretsAreNobodys(t *testing.T) {
	const shared = "hush-hush"
	key := func(scope, name, value string) *model.Resource {
		return row(scope, gateway.Keys, name, &gateway.Key{Key: value, Consumer: "bob"})
	}
	rows := []*model.Resource{key("a", "z", shared), key("b", "y", shared), key("b", "x", "of b alone"), key("c", "w", "of c alone")}
	for _, scope := range []string{"a", "b", "c"} {
		rows = append([]*model.Resource{row(scope, gateway.Consumers, "bob", &gateway.Consumer{Username: "bob"})}, rows...)
	}
	over(t, func(src scopes.Source) {
		want := scopes.Conflict{
			Kind: gateway.Keys, Index: "key",
			Holders: [2]model.Key{{Kind: gateway.Keys.Name, Scope: "a", Name: "z"}, {Kind: gateway.Keys.Name, Scope: "b", Name: "y"}},
		}
		for name, read := range map[string]func() error{
			"Find":  func() error { _, err := src.Find(gateway.Keys, "key", gateway.KeyAuthKey(shared)); return err },
			"List":  func() error { _, err := src.List(gateway.Keys, store.Query{}); return err },
			"Check": func() error { return src.Check(key("a", "z", shared)) },
		} {
			err := read()
			got, is := scopes.ConflictIn(err)
			if !is || !fault.Is(err, fault.Unavailable) || got.Kind != want.Kind || got.Index != want.Index || got.Holders != want.Holders {
				t.Errorf("%s: %+v of %v, want %+v", name, got, err, want)
			}
			if got.Value != "" || strings.Contains(fmt.Sprint(err), gateway.KeyAuthKey(shared)) || strings.Contains(fmt.Sprint(err), shared) {
				t.Errorf("%s tells the secret: %q, %v", name, got.Value, err)
			}
		}
		for _, alone := range []*model.Resource{key("b", "x", "of b alone"), key("c", "w", "of c alone")} {
			if err := src.Check(alone); err != nil {
				t.Errorf("%s has a key of its own: %v", alone.Name, err)
			}
		}
		if res, err := src.Find(gateway.Keys, "key", gateway.KeyAuthKey("of c alone")); err != nil || res.Name != "w" {
			t.Errorf("the key of c: %+v, %v", res, err)
		}
	}, rows...)
}

// TestConflictSaysWhatIsShared: what is no secret is named, and an id is no value of an
// index.
func TestConflictSaysWhatIsShared(t *testing.T) {
	over(t, func(src scopes.Source) {
		_, byID := src.Get(gateway.Consumers, "same")
		_, byName := src.Find(gateway.Consumers, gateway.IndexUsername, "bob")
		_, byClient := src.Find(gateway.Applications, "client_id", "shop") // beside a secret index
		for what, err := range map[string]error{"the id same": byID, "the username bob": byName, "the client_id shop": byClient} {
			if c, is := scopes.ConflictIn(err); !is || !strings.HasSuffix(what, " "+c.Value) || !strings.Contains(err.Error(), "both have "+what+",") {
				t.Errorf("%s: %+v of %v", what, c, err)
			}
		}
	},
		row("a", gateway.Consumers, "same", &gateway.Consumer{Username: "ann"}), row("c", gateway.Consumers, "same", &gateway.Consumer{Username: "cat"}),
		row("a", gateway.Consumers, "n", &gateway.Consumer{Username: "bob"}), row("b", gateway.Consumers, "m", &gateway.Consumer{Username: "bob"}),
		row("a", gateway.Applications, "p", &gateway.Application{ClientID: "shop", ClientSecret: "one", Consumer: "n"}),
		row("b", gateway.Applications, "q", &gateway.Application{ClientID: "shop", ClientSecret: "two", Consumer: "m"}))
}

// grouped is a resolver of groups that have the same members.
type grouped struct {
	scopes.Each
	groups map[string][]string
}

func (g *grouped) Groups(_ store.Reader, member string) (of []string, _ error) {
	for name, members := range g.groups {
		if slices.Contains(members, member) {
			of = append(of, name)
		}
	}
	return of, nil
}

func (g *grouped) Resolve(r store.Reader, scope string) (scopes.Source, error) {
	return scopes.Union(r, g.groups[scope]...), nil
}

// counted counts what is asked for.
type counted struct {
	store.Reader
	asked []string
}

func (c *counted) Get(k *model.Kind, scope, name string) (*model.Resource, error) {
	c.asked = append(c.asked, scope)
	return c.Reader.Get(k, scope, name)
}

// TestFellowsAreAskedOnce: however many groups two control planes share, one is asked once what it has
// in common with the other, and who is in no group of it is not asked.
func TestFellowsAreAskedOnce(t *testing.T) {
	by := &grouped{groups: map[string][]string{"one": {"a", "b"}, "two": {"a", "b", "c"}, "three": {"a", "c"}, "four": {"d"}}}
	mine := row("a", gateway.Services, "x", &gateway.Service{})
	if err := filled(t, mine, row("b", gateway.Services, "x", &gateway.Service{}), row("d", gateway.Services, "x", &gateway.Service{})).View(t.Context(), func(r store.Reader) error {
		c := &counted{Reader: r}
		fellows, err := scopes.Fellows(c, by, "a")
		if err != nil {
			return err
		}
		others, err := fellows.Sharing(mine, "")
		if len(others) != 1 || others[0].Scope != "b" {
			t.Errorf("the others are %v", others)
		}
		if diff := cmp.Diff([]string{"b", "c"}, c.asked); diff != "" {
			t.Error(diff)
		}
		alone, none := scopes.Fellows(c, by, "e")
		if none != nil || len(alone.Scopes()) != 0 {
			t.Errorf("who is in no group has %v, %v", alone.Scopes(), none)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

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

// later adds rows in commits of their own, one after the other.
func later(t *testing.T, s store.Store, rows ...*model.Resource) {
	t.Helper()
	for _, r := range rows {
		if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
			_, err := tx.Create(r)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFirstCounts: of what two members have in common, that of the one that had it first is
// found, whichever scope comes first, and the other has no part, until the first one gives
// way. List has both.
func TestFirstCounts(t *testing.T) {
	consumer := func(scope, name, username string) *model.Resource {
		return row(scope, gateway.Consumers, name, &gateway.Consumer{Username: username})
	}
	s := filled(t)
	later(t, s, consumer("b", "first", "bob"), consumer("a", "second", "bob"), consumer("c", "third", "carl"), consumer("a", "third", "ann"))
	by := []string{"", gateway.IndexUsername}
	look := func(want map[string]string, left map[string]string) {
		t.Helper()
		if err := s.View(t.Context(), func(r store.Reader) error {
			src := scopes.Union(r, "c", "a", "b")
			for what, scope := range want {
				res, err := src.Find(gateway.Consumers, gateway.IndexUsername, what)
				if what == "third" {
					res, err = src.Get(gateway.Consumers, what)
				}
				if err != nil || res.Scope != scope {
					t.Errorf("%s is %+v, %v, want that of %s", what, res, err, scope)
				}
			}
			all, err := src.List(gateway.Consumers, store.Query{})
			if err != nil || len(all) != 4 {
				t.Errorf("all: %v, %v", all, err)
			}
			got := map[string]string{}
			for _, res := range all {
				err := src.Counts(res, by...)
				clash, is := scopes.ClashIn(fault.Wrap(fault.Unavailable, fmt.Errorf("look: %w", err), "it cannot be read"))
				if is != fault.Is(err, fault.Unavailable) || (err != nil) != is {
					t.Errorf("%s %s: %v", res.Scope, res.Name, err)
				}
				if is {
					got[clash.Left.Scope+" "+clash.Left.Name] = clash.Rival.Scope + " " + clash.Rival.Name + " by " + clash.Shared()
				}
			}
			if diff := cmp.Diff(left, got); diff != "" {
				t.Error(diff)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	look(map[string]string{"bob": "b", "third": "c"}, map[string]string{
		"a second": "b first by the username bob", "a third": "c third by the id third",
	})
	if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Update(consumer("b", "first", "ann"), 0)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	look(map[string]string{"bob": "a", "ann": "a", "third": "c"}, map[string]string{
		"b first": "a third by the username ann", "a third": "c third by the id third",
	})
}

// TestSharedSecretsAreNotTold: a key that two members have is the earlier one's, and whoever is
// told of it is not told the key.
func TestSharedSecretsAreNotTold(t *testing.T) {
	const shared = "hush-hush"
	s := filled(t)
	for _, scope := range []string{"b", "a"} {
		later(t, s, row(scope, gateway.Consumers, scope, &gateway.Consumer{Username: scope}),
			row(scope, gateway.Keys, "same", &gateway.Key{Key: shared, Consumer: scope}))
	}
	if err := s.View(t.Context(), func(r store.Reader) error {
		src := scopes.Union(r, "a", "b")
		res, err := src.Find(gateway.Keys, gateway.IndexKey, gateway.KeyAuthKey(shared))
		if err != nil || res.Scope != "b" {
			t.Errorf("the key is that of %+v, %v", res, err)
		}
		of, err := r.Get(gateway.Keys, "a", "same")
		if err != nil {
			return err
		}
		err = src.Counts(of, "")
		if clash, is := scopes.ClashIn(err); !is || clash.Value != "same" || strings.Contains(err.Error(), shared) || strings.Contains(err.Error(), gateway.KeyAuthKey(shared)) {
			t.Errorf("%+v of %v", clash, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
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
		if err := fellows.Counts(mine, ""); err != nil {
			t.Errorf("the first one: %v", err)
		}
		if diff := cmp.Diff([]string{"b", "c"}, c.asked); diff != "" {
			t.Error(diff)
		}
		behind := *mine
		behind.CreatedRevision = 9
		if clash, left := scopes.ClashIn(fellows.Counts(&behind, "")); !left || clash.Rival.Scope != "b" {
			t.Errorf("one that is behind is left out: %t, by %+v", left, clash.Rival)
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

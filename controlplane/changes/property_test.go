package changes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flat lists the leaves of a JSON value by path, in a different way than the package does.
func flat(path string, v any, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			flat(path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), e, into)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for i, e := range v {
			flat(path+"/"+strconv.Itoa(i), e, into)
		}
		if len(v) > 0 {
			return
		}
	}
	raw, _ := json.Marshal(v)
	if into[path] = string(raw); path == "" {
		delete(into, path)
	}
}

// anything draws a JSON value.
func anything(t *rapid.T, depth int) any {
	switch n := rapid.IntRange(0, 7).Draw(t, "sort"); {
	case n == 0:
		return nil
	case n == 1:
		return rapid.Bool().Draw(t, "bool")
	case n == 2:
		return float64(rapid.IntRange(-3, 3).Draw(t, "number"))
	case n == 3 || depth == 0:
		return rapid.SampledFrom([]string{"", "a", "b/c", "~"}).Draw(t, "text")
	case n < 6:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, anything(t, depth-1))
		}
		return list
	default:
		return object(t, depth-1)
	}
}

func object(t *rapid.T, depth int) map[string]any {
	m := map[string]any{}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"0", "1", "a", "a/b", "~1"}), 0, 3, rapid.ID).Draw(t, "keys") {
		m[key] = anything(t, depth)
	}
	return m
}

// TestReplay makes random writes through the gate, and then replays the records on an empty
// state. Each record must fit the state, and the result must be what is stored.
func TestReplay(t *testing.T) {
	documents := &model.Kind{
		Name: "doc", Path: "docs", Scoping: model.Global, Class: model.Config, New: newFree,
		// Written through typed and untyped operations alike, as in transactions.
	}
	rapid.Check(t, func(t *rapid.T) {
		s := memstore.New()
		defer func() { _ = s.Close() }()
		gate := admit.New(s, &admittest.Revoker{}, []*model.Kind{documents}, time.Now)
		ctx := model.WithActor(context.Background(), model.User("ann"))
		for range rapid.IntRange(1, 12).Draw(t, "transactions") {
			_, err := gate.Write(ctx, model.Config, func(tx store.Tx) error {
				for range rapid.IntRange(1, 3).Draw(t, "writes") {
					if err := writeOne(t, tx, documents); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		replayed, stored := map[string]map[string]string{}, map[string]map[string]string{}
		if err := s.View(ctx, func(r store.Reader) error {
			list, err := r.Records(store.RecordQuery{Oldest: true, Fleeting: true})
			if err != nil {
				return err
			}
			for i := range list {
				replay(t, replayed, &list[i])
			}
			rows, err := r.List(documents, store.Query{})
			for _, row := range rows {
				stored[row.Name] = map[string]string{}
				flat("", map[string]any(*row.Spec.(*free)), stored[row.Name])
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(stored, replayed); diff != "" {
			t.Fatalf("what is stored and what was recorded (-stored +replayed):\n%s", diff)
		}
	})
}

// writeOne creates, replaces or deletes one of a few resources.
func writeOne(t *rapid.T, tx store.Tx, k *model.Kind) error {
	name := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name")
	have, err := tx.List(k, store.Query{})
	if err != nil {
		return err
	}
	exists := slices.ContainsFunc(have, func(r *model.Resource) bool { return r.Name == name })
	spec := free(object(t, 3))
	switch {
	case !exists:
		_, err = tx.Create(&model.Resource{Kind: k, Name: name, Spec: &spec})
	case rapid.IntRange(0, 3).Draw(t, "delete") == 0:
		err = tx.Delete(k, "", name, 0)
	default:
		_, err = tx.Update(&model.Resource{Kind: k, Name: name, Spec: &spec}, 0)
	}
	return err
}

// replay applies a record: first all removals, then all additions.
func replay(t *rapid.T, all map[string]map[string]string, r *store.ChangeRecord) {
	now := all[r.Key.Name]
	if (now == nil) != (r.Op == store.Created) || r.More != 0 || r.Actor.Name != "ann" {
		t.Fatalf("%+v does not fit", r)
	}
	if now == nil {
		now = map[string]string{}
	}
	for _, m := range r.Members {
		if m.Old == nil {
			continue
		}
		if now[m.Path] != string(m.Old) {
			t.Fatalf("record %d says that %s was %s, it was %q", r.Number, m.Path, m.Old, now[m.Path])
		}
		delete(now, m.Path)
	}
	for _, m := range r.Members {
		if m.New != nil {
			if _, there := now[m.Path]; there {
				t.Fatalf("record %d lets %s come twice", r.Number, m.Path)
			}
			now[m.Path] = string(m.New)
		}
	}
	if all[r.Key.Name] = now; r.Op == store.Deleted {
		if len(now) > 0 {
			t.Fatal(fmt.Sprintf("record %d leaves", r.Number), slices.Collect(maps.Keys(now)))
		}
		delete(all, r.Key.Name)
	}
}

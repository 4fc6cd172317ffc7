package recall_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/recall"
)

type item struct {
	Label string `json:"label,omitempty"`
	N     int    `json:"n,omitempty"`
}

func newItem() any { return new(item) }

// Three kinds with different announcements that are kept, one that accompanies them, and one
// that is not kept.
var (
	labels = []model.Index{{Name: "label", Value: func(s any) (string, bool) { return s.(*item).Label, s.(*item).Label != "" }}}
	box    = &model.Kind{Name: "box", Class: model.Config, New: newItem, Unique: labels}
	person = &model.Kind{Name: "person", Class: model.Credential, Announce: model.AnnounceAll, New: newItem, Unique: labels}
	card   = &model.Kind{Name: "card", Class: model.Credential, Announce: model.AnnounceRevocations, New: newItem, Unique: labels}
	shadow = &model.Kind{Name: "shadow", Class: model.Credential, Announce: model.AnnounceNone, New: newItem}
	other  = &model.Kind{Name: "other", Class: model.Config, New: newItem, Unique: labels}
)

// counted counts the views of a store.
type counted struct {
	store.Store
	views atomic.Int64
}

// View implements [store.Store].
func (c *counted) View(ctx context.Context, fn func(store.Reader) error) error {
	c.views.Add(1)
	return c.Store.View(ctx, fn)
}

func open(t *testing.T) *counted {
	s := memstore.New()
	t.Cleanup(func() { _ = s.Close() })
	return &counted{Store: s}
}

func write(t *testing.T, s store.Store, fn func(store.Tx) error) store.Commit {
	t.Helper()
	c, err := s.Update(t.Context(), model.Config, fn)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func create(k *model.Kind, name string, spec item) func(store.Tx) error {
	return func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: k, Scope: "s", Name: name, Spec: &spec})
		return err
	}
}

func update(k *model.Kind, name string, spec item) func(store.Tx) error {
	return func(tx store.Tx) error {
		_, err := tx.Update(&model.Resource{Kind: k, Scope: "s", Name: name, Spec: &spec}, 0)
		return err
	}
}

// seen is what a reader says of some rows.
func seen(r store.Reader, kinds []*model.Kind) (out []string, err error) {
	say := func(what string, res *model.Resource, err error) error {
		switch {
		case fault.Is(err, fault.NotFound):
			out = append(out, what+" absent")
		case err != nil:
			return err
		default:
			out = append(out, fmt.Sprint(what, " ", res.Name, " ", res.Version, " ", *res.Spec.(*item)))
		}
		return nil
	}
	for _, k := range kinds {
		for n := range 3 {
			res, err := r.Get(k, "s", fmt.Sprint(n))
			if err := say(fmt.Sprint(k.Name, " ", n), res, err); err != nil {
				return nil, err
			}
			if len(k.Unique) == 0 {
				continue
			}
			res, err = r.Find(k, "s", "label", fmt.Sprint("l", n))
			if err := say(fmt.Sprint(k.Name, " with l", n), res, err); err != nil {
				return nil, err
			}
		}
		list, err := r.List(k, store.Query{Scope: "s"})
		if err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprint(k.Name, " ", len(list)))
	}
	return out, nil
}

// TestAgreesWithTheStore: whatever is written, a view through the cache sees what a view of
// the store sees.
func TestAgreesWithTheStore(t *testing.T) {
	for name, tc := range map[string]struct {
		cache func(store.Store) *recall.Cache
		kinds []*model.Kind
	}{
		"announced":         {func(s store.Store) *recall.Cache { return recall.New(s, box, person, card) }, []*model.Kind{box, person}},
		"announced in part": {func(s store.Store) *recall.Cache { return recall.New(s, box, card) }, []*model.Kind{box, card}},
		"not all kept":      {func(s store.Store) *recall.Cache { return recall.New(s, person) }, []*model.Kind{person, card}},
		"accompanied":       {func(s store.Store) *recall.Cache { return recall.New(s, box).Accompanied(shadow) }, []*model.Kind{box, shadow}},
	} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 1))
			s := open(t)
			cache := tc.cache(s)
			for step := range 1500 {
				k := append(tc.kinds, other)[random.IntN(len(tc.kinds)+1)]
				if step%3 > 0 {
					s.writeAny(t, random, k)
				}
				var got, want []string
				readAll(t, cache, tc.kinds, &got)
				readAll(t, s, tc.kinds, &want)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("seed %d, step %d: %s", seed, step, diff)
				}
			}
			if n := s.views.Load(); name == "announced" && n > 1500+1300 {
				t.Errorf("%d views: nothing came from memory", n)
			}
		})
	}
}

type viewer interface {
	View(ctx context.Context, fn func(store.Reader) error) error
}

func readAll(t *testing.T, v viewer, kinds []*model.Kind, into *[]string) {
	t.Helper()
	if err := v.View(t.Context(), func(r store.Reader) (err error) {
		*into, err = seen(r, kinds)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// writeAny writes something; what the store refuses changes nothing. A shadow is written
// together with an announcement.
func (c *counted) writeAny(t *testing.T, random *rand.Rand, k *model.Kind) {
	name := fmt.Sprint(random.IntN(3))
	spec := item{N: random.IntN(100)}
	if random.IntN(2) == 0 && len(k.Unique) > 0 {
		spec.Label = fmt.Sprint("l", random.IntN(3))
	}
	_, _ = c.Update(t.Context(), model.Config, func(tx store.Tx) error {
		if k == shadow {
			tx.Announce(model.Key{Kind: "something", Name: "else"}, store.Updated)
		}
		switch random.IntN(3) {
		case 0:
			return create(k, name, spec)(tx)
		case 1:
			return update(k, name, spec)(tx)
		}
		return tx.Delete(k, "s", name, 0)
	})
}

// TestWhatIsKept: what a view has found, the next one finds without the store, also after
// changes of other kinds, and not after changes of the same kind.
func TestWhatIsKept(t *testing.T) {
	s := open(t)
	write(t, s, create(box, "0", item{Label: "l0"}))
	cache := recall.New(s, box, card)
	look := func(want int64) {
		t.Helper()
		before := s.views.Load()
		if err := cache.View(t.Context(), func(r store.Reader) error {
			if _, err := r.Get(box, "s", "0"); err != nil {
				return err
			}
			if _, err := r.Find(box, "s", "label", "l0"); err != nil {
				return err
			}
			if _, err := r.Get(box, "s", "none"); !fault.Is(err, fault.NotFound) {
				return fmt.Errorf("a box that does not exist: %w", err)
			}
			if r.Revision() != s.Revision() {
				return fmt.Errorf("revision %d of %d", r.Revision(), s.Revision())
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if n := s.views.Load() - before; n != want {
			t.Errorf("%d views of the store, want %d", n, want)
		}
	}
	look(1)
	look(0)
	write(t, s, create(other, "0", item{})) // a revision of another kind
	look(0)
	write(t, s, create(card, "0", item{})) // no revision
	look(0)
	write(t, s, update(box, "0", item{Label: "l0", N: 1}))
	look(1)
	look(0)
	for n := range 300 { // further than is followed
		write(t, s, update(other, "0", item{N: n}))
	}
	look(1)
}

// TestAbsenceThatEndsUnannounced: that a row is absent is not kept if its creation is not
// announced.
func TestAbsenceThatEndsUnannounced(t *testing.T) {
	s := open(t)
	cache := recall.New(s, card)
	find := func() (err error) {
		_ = cache.View(t.Context(), func(r store.Reader) error {
			_, err = r.Get(card, "s", "0")
			return nil
		})
		return err
	}
	if err := find(); !fault.Is(err, fault.NotFound) {
		t.Fatal(err)
	}
	if c := write(t, s, create(card, "0", item{})); c.Revision != 0 {
		t.Fatalf("a creation has revision %d", c.Revision)
	}
	if err := find(); err != nil {
		t.Error(err)
	}
}

// TestBounds: strangers' questions take bounded room, and take it from each other.
func TestBounds(t *testing.T) {
	s := open(t)
	cache := recall.New(s, box)
	for n := range 3 * recall.MaxAnswers {
		_ = cache.View(t.Context(), func(r store.Reader) error {
			_, err := r.Get(box, "s", fmt.Sprint(n))
			return err
		})
	}
	if n, _ := cache.Answers(); n != recall.MaxAnswers {
		t.Errorf("%d answers are kept", n)
	}
}

// TestKindsThatCannotBeKept: kinds that change unannounced, or by themselves.
func TestKindsThatCannotBeKept(t *testing.T) {
	fleeting := *person
	fleeting.Expires = func(any) time.Time { return time.Time{} }
	for _, k := range []*model.Kind{shadow, &fleeting} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("the kind %s is kept", k.Name)
				}
			}()
			recall.New(open(t), k)
		}()
	}
}

// TestErrorsOfTheReader: the error of fn is that of the view, from memory as from the store.
func TestErrorsOfTheReader(t *testing.T) {
	s := open(t)
	cache := recall.New(s, box)
	mine := errors.New("mine")
	for range 2 {
		err := cache.View(t.Context(), func(r store.Reader) error {
			_, _ = r.Get(box, "s", "0")
			return mine
		})
		if diff := cmp.Diff(mine, err, cmpopts.EquateErrors()); diff != "" {
			t.Error(diff)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := cache.View(ctx, func(store.Reader) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller has left: %v", err)
	}
}

// TestReadersSeeTheirOwnWrites: whoever has written reads that or what came later, whatever
// others read at the same time.
func TestReadersSeeTheirOwnWrites(t *testing.T) {
	s := open(t)
	write(t, s, create(box, "0", item{}))
	write(t, s, create(other, "0", item{}))
	cache := recall.New(s, box)
	read := func() (n int) {
		if err := cache.View(context.Background(), func(r store.Reader) error {
			res, err := r.Get(box, "s", "0")
			if err == nil {
				n = res.Spec.(*item).N
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		return n
	}
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			last := 0
			for range 2000 {
				n := read()
				if n < last {
					t.Errorf("%d after %d", n, last)
					return
				}
				last = n
			}
		})
	}
	for n := 1; n <= 500; n++ {
		k := box
		if n%3 > 0 {
			k = other
		}
		write(t, s, update(k, "0", item{N: n}))
		if got := read(); k == box && got != n {
			t.Errorf("%d is written, %d is read", n, got)
		}
	}
	work.Wait()
}

// late is a store that does not announce yet what its views show already.
type late struct {
	store.Store
	announced atomic.Uint64
}

// Revision implements [store.Store].
func (l *late) Revision() uint64 { return l.announced.Load() }

// TestNoViewGoesBack: once a view has shown a commit that is not announced yet, a later view
// does not answer from before it, whatever is in memory.
func TestNoViewGoesBack(t *testing.T) {
	s := &late{Store: memstore.New()}
	t.Cleanup(func() { _ = s.Close() })
	write(t, s, create(card, "a", item{N: 1}))
	write(t, s, create(box, "b", item{}))
	s.announced.Store(s.Store.Revision())
	c := recall.New(s, card, box)
	read := func(k *model.Kind, name string) (revision uint64, n int) {
		t.Helper()
		if err := c.View(t.Context(), func(r store.Reader) error {
			res, err := r.Get(k, "s", name)
			if err == nil {
				revision, n = r.Revision(), res.Spec.(*item).N
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return revision, n
	}
	read(card, "a") // it is in memory
	write(t, s, update(card, "a", item{N: 2}))
	seen, _ := read(box, "b") // not in memory: the store shows what it has
	if revision, n := read(card, "a"); revision < seen || n != 2 {
		t.Errorf("revision %d with %d after revision %d", revision, n, seen)
	}
}

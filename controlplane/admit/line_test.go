package admit

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// named is a store with one row, which has an id and a name.
type named struct {
	store.Store
	row *model.Resource
	as  string
}

func (n *named) View(_ context.Context, f func(store.Reader) error) error {
	return f(namedReader{of: n})
}

type namedReader struct {
	store.Reader
	of *named
}

func (r namedReader) Get(_ *model.Kind, _, name string) (*model.Resource, error) {
	return r.only(name == r.of.row.Name)
}

func (r namedReader) Find(_ *model.Kind, _, _, value string) (*model.Resource, error) {
	return r.only(value == r.of.as)
}

func (r namedReader) only(is bool) (*model.Resource, error) {
	if !is {
		return nil, fault.New(fault.NotFound, "there is one row")
	}
	return r.of.row, nil
}

// TestLine: those to whom another writer came between write one after the other, by whatever they name
// the row, also if one of them goes away while it waits, and writers of something else do not wait for them.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kind := &model.Kind{Name: "k", Schema: &model.Schema{Key: "name"}}
		const id = "6f0c1c0e-7c1b-4b43-8d24-3a2d0f7f1f5a"
		g := &Gate{lines: &lines{of: map[model.Key]*line{}}, store: &named{row: &model.Resource{Kind: kind, Name: id}, as: "a"}}
		a, same := Address{Kind: kind, Key: "a"}, Address{Kind: kind, Key: strings.ToUpper(id)}
		var counting sync.Mutex // those of two addresses count at once
		writing, most, done := 0, 0, 0
		hold := make(chan struct{})
		write := func() func() (Outcome, error) {
			first := true
			return func() (Outcome, error) {
				if first {
					first = false
					return Outcome{}, fault.New(fault.Conflict, "another came between")
				}
				counting.Lock()
				writing++
				most = max(most, writing)
				counting.Unlock()
				<-hold
				counting.Lock()
				defer counting.Unlock()
				writing--
				done++
				return Outcome{}, nil
			}
		}
		for i := range 5 {
			go func() {
				if _, err := g.again(t.Context(), []Address{a, same}[i%2], write()); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := g.again(gone, a, write())
			left <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who went away: %v", err)
		}
		if most != 1 {
			t.Errorf("%d write at once", most)
		}
		other := Address{Kind: kind, Key: "b"}
		go func() { _, _ = g.again(t.Context(), other, write()) }()
		synctest.Wait()
		if most != 2 {
			t.Error("who writes something else waits")
		}
		close(hold)
		synctest.Wait()
		if done != 6 || most != 2 || len(g.lines.of) != 0 {
			t.Errorf("%d have written, %d at once, and %d lines are left", done, most, len(g.lines.of))
		}
	})
}

package admit

import (
	"context"
	"sync"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// lines let those who write the same resource, and came between each other, write one after the
// other. Otherwise most of many would be refused, each time that one of them is done.
type lines struct {
	mu sync.Mutex
	of map[model.Key]*line
}

// line has room for the one whose turn it is. users counts those who wait, and that one.
type line struct {
	turn  chan struct{}
	users int
}

// stand waits for its turn at a row, which ends with the call of done. The error is that of ctx.
func (l *lines) stand(ctx context.Context, key model.Key) (done func(), err error) {
	l.mu.Lock()
	one := l.of[key]
	if one == nil {
		one = &line{turn: make(chan struct{}, 1)}
		l.of[key] = one
	}
	one.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.of, key)
		}
	}
	select {
	case one.turn <- struct{}{}:
		return func() { <-one.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// rowAt returns the key of the row at an address. Those who write the same row may name it
// differently: by its id, by a name, or as what something refers to. Where there is no row, it is what
// was written in the address.
func (g *Gate) rowAt(ctx context.Context, a Address) model.Key {
	key := model.Key{Kind: a.Kind.Name, Scope: a.Scope, Name: a.Key}
	_ = g.store.View(ctx, func(r store.Reader) error { // the attempts tell what fails
		res, err := Lookup(r, a)
		if err == nil {
			key = res.Key()
		}
		return err
	})
	return key
}

// again makes attempts until one does not fail because another writer came between. From the second
// on, it is its turn among those to whom the same has happened.
func (g *Gate) again(ctx context.Context, a Address, attempt func() (Outcome, error)) (Outcome, error) {
	out, err := attempt()
	if !fault.Is(err, fault.Conflict) {
		return out, err
	}
	done, err := g.lines.stand(ctx, g.rowAt(ctx, a))
	if err != nil {
		return Outcome{}, err
	}
	defer done()
	for range maxAttempts {
		out, err := attempt()
		if !fault.Is(err, fault.Conflict) {
			return out, err
		}
	}
	return Outcome{}, fault.New(fault.Conflict, "the resource is being written by others")
}

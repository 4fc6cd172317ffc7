package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Unreadable is a store in which some rows cannot be decoded by views, as if a later version
// of the program had written them. They are counted, but every read that meets one fails.
// Transactions can read all rows.
type Unreadable struct {
	store.Store

	mu   sync.Mutex
	rows map[model.Key]bool
	away bool
}

// Spoil makes a row unreadable, or readable again.
func (u *Unreadable) Spoil(k *model.Kind, scope, name string, yes bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.rows == nil {
		u.rows = map[model.Key]bool{}
	}
	u.rows[model.Key{Kind: k.Name, Scope: scope, Name: name}] = yes
}

// Away makes every view fail, as on a disk that is gone.
func (u *Unreadable) Away(yes bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.away = yes
}

func (u *Unreadable) spoilt(res *model.Resource) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rows[res.Key()]
}

func errUnreadable(res *model.Resource) error {
	bare := *res
	return fault.Wrap(fault.Internal, store.Unreadable(&bare, 0, fmt.Errorf("decoding a row: %s %q", res.Kind.Name, res.Name)), "the store failed")
}

// View implements [store.Store].
func (u *Unreadable) View(ctx context.Context, fn func(store.Reader) error) error {
	u.mu.Lock()
	away := u.away
	u.mu.Unlock()
	if away {
		return fault.New(fault.Internal, "the store cannot be read")
	}
	return u.Store.View(ctx, func(r store.Reader) error { return fn(unreadable{r, u}) })
}

type unreadable struct {
	store.Reader
	of *Unreadable
}

// Get implements [store.Reader].
func (r unreadable) Get(k *model.Kind, scope, name string) (*model.Resource, error) {
	res, err := r.Reader.Get(k, scope, name)
	if err == nil && r.of.spoilt(res) {
		return nil, errUnreadable(res)
	}
	return res, err
}

// Named implements [store.Reader].
func (r unreadable) Named(k *model.Kind, scope string, names []string) ([]*model.Resource, error) {
	return r.all(r.Reader.Named(k, scope, names))
}

// List implements [store.Reader].
func (r unreadable) List(k *model.Kind, q store.Query) ([]*model.Resource, error) {
	return r.all(r.Reader.List(k, q))
}

// all fails for all if one of them is spoilt.
func (r unreadable) all(list []*model.Resource, err error) ([]*model.Resource, error) {
	if i := slices.IndexFunc(list, r.of.spoilt); i >= 0 {
		return nil, errUnreadable(list[i])
	}
	return list, err
}

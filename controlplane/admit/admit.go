// Package admit is the one way by which anything is written: APIs, declarative
// sync, the OAuth server. It completes and validates entities, checks them
// against others, and compares-and-swaps inside one transaction; and it lets
// revocations be staged in that transaction and published after it, so that no
// writer can forget to revoke.
//
// Slow work (hashing) happens before the transaction opens.
package admit

import (
	"context"
	"errors"
	"time"

	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Revoker makes revocations known; see docs/adr/0003-freshness.md.
type Revoker interface {
	// Stage adds to a transaction what its changes call for, such as
	// tombstones. Like the transaction it may run more than once.
	Stage(tx store.Tx) error
	// Begin announces a write, before its transaction: whoever finds its work done
	// by that transaction can then wait for its publication. One of the two
	// functions must be called, once; neither is if it is not known whether the
	// transaction was committed ([store.ErrUndecided]).
	//
	// publish returns once no filter answers from the state before the commit. A
	// fault of code Unavailable says that this cannot be claimed; the commit stands
	// nevertheless. It bounds its own duration: its context is not cancelled when
	// the caller goes away, because a revocation must not depend on the patience of
	// its client. abandon says that nothing was committed.
	Begin() (publish func(ctx context.Context, c store.Commit) error, abandon func())
	// Settle returns once every write that had begun is published and no
	// revocation is unconfirmed. It is what "there is nothing to revoke" waits for:
	// somebody else may have removed it a moment ago, and a filter may not know.
	// Unavailable says that this cannot be claimed.
	Settle(ctx context.Context) error
}

// Gate admits writes. It is safe for concurrent use.
type Gate struct {
	store   store.Store
	revoker Revoker
	kinds   map[string]*model.Kind
	now     func() time.Time
	// actor is whose writes these are where the context names nobody.
	actor model.Actor
	// resolver says which scopes nobody writes; never changed once the gate is used.
	resolver scopes.Resolver
	// hooks accompany documents; never changed once the gate is used.
	hooks map[*model.Kind][]Hook
}

// New returns a gate. kinds are those that typed operations and references
// know; now is the clock that creation times and lifetimes are taken from.
func New(s store.Store, r Revoker, kinds []*model.Kind, now func() time.Time) *Gate {
	g := &Gate{store: s, revoker: r, kinds: make(map[string]*model.Kind, len(kinds)), now: now, resolver: scopes.Each{}, hooks: map[*model.Kind][]Hook{}}
	for _, k := range kinds {
		g.kinds[k.Name] = k
	}
	return g
}

// Resolve has the gate refuse what a resolver says is read-only. It must be called before
// the gate is used.
func (g *Gate) Resolve(r scopes.Resolver) { g.resolver = r }

// As returns the gate for a part of the control plane that writes by itself: its
// writes are those of the actor, unless their context names another one. Hooks are
// shared with g.
func (g *Gate) As(a model.Actor) *Gate {
	own := *g
	own.actor = a
	return &own
}

// by returns the context of a write, with the actor in it. A write that nobody
// makes is a mistake in the program.
func (g *Gate) by(ctx context.Context) (context.Context, error) {
	if _, ok := model.ActorOf(ctx); ok {
		return ctx, nil
	}
	if !g.actor.Known() {
		return nil, fault.New(fault.Internal, "a write does not say who makes it")
	}
	return model.WithActor(ctx, g.actor), nil
}

// errStricter rolls a transaction back that turned out to be a revocation.
var errStricter = errors.New("the transaction revokes and needs a stricter durability")

// Write runs fn in a transaction, stages what its changes revoke, commits, and
// publishes. A transaction that changes or removes credentials is committed
// with the durability of [model.Config] whatever class says: a revocation that
// a power failure undoes was none. fn may run more than once.
//
// The context says who writes (see [model.WithActor]); what is staged, stored and
// published sees it there. Internal without an actor.
//
// [store.ErrUndecided] if the process ends before it is known whether the transaction
// was committed. ctx does not end the wait for that.
//
// If the returned commit has changes although there is an error, the commit
// stands and only its publication failed.
//
// What administrators should see of it is recorded in the same transaction; see
// package changes.
func (g *Gate) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	return g.write(ctx, class, func(tx store.Tx) (subject model.Key, err error) { return subject, fn(tx) })
}

// work is what a transaction does. It returns which resource was asked for, whose
// coming and going is the cause of all others.
type work func(store.Tx) (subject model.Key, err error)

func (g *Gate) write(ctx context.Context, class model.Class, fn work) (store.Commit, error) {
	ctx, err := g.by(ctx)
	if err != nil {
		return store.Commit{}, err
	}
	publish, abandon := g.revoker.Begin()
	abandoned := true // unless something else becomes known; a panic commits nothing
	defer func() {
		if abandoned {
			abandon()
		}
	}()
	commit, err := g.update(ctx, class, fn)
	if errors.Is(err, errStricter) {
		commit, err = g.update(ctx, model.Config, fn)
	}
	// One that may have been committed is neither published nor abandoned: what it
	// may have revoked is unconfirmed for as long as this process lives, and the next
	// one publishes what it finds.
	abandoned = err != nil && !errors.Is(err, store.ErrUndecided)
	if err != nil {
		return store.Commit{}, err
	}
	return commit, publish(context.WithoutCancel(ctx), commit)
}

// Settle returns once nothing that was revoked before can still be accepted, or
// says that this cannot be claimed (Unavailable). Whoever finds that there is
// nothing to revoke calls it before saying so.
func (g *Gate) Settle(ctx context.Context) error {
	return g.revoker.Settle(context.WithoutCancel(ctx))
}

func (g *Gate) update(ctx context.Context, class model.Class, fn work) (store.Commit, error) {
	return g.store.Update(ctx, class, func(tx store.Tx) error {
		subject, err := fn(tx)
		if err != nil {
			return err
		}
		if err := g.writable(tx); err != nil {
			return err
		}
		if err := g.vacant(tx); err != nil {
			return err
		}
		if class != model.Config && revokes(tx.Changes()) {
			return errStricter
		}
		if err := g.revoker.Stage(tx); err != nil {
			return err
		}
		return record(ctx, tx, subject)
	})
}

// writable refuses a transaction that writes into a scope which is made of others.
func (g *Gate) writable(tx store.Tx) error {
	for _, c := range tx.Changes() {
		res := c.New
		if res == nil {
			res = c.Old
		}
		if res.Kind.Scoping != model.ControlPlane {
			continue
		}
		refused, err := g.resolver.ReadOnly(tx, res.Key())
		if err != nil {
			return err
		}
		if refused {
			return fault.New(fault.Forbidden, "%q is a group of control planes and has no %s of its own: write to one of its members",
				res.Scope, res.Kind.Plural())
		}
	}
	return nil
}

// record keeps what a transaction has changed. There is no change without it: who
// cannot be told of a change must not find it made.
func record(ctx context.Context, tx store.Tx, subject model.Key) error {
	who, _ := model.ActorOf(ctx)
	list, err := changes.Records(tx.Changes(), who, model.OriginOf(ctx), subject)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "a change cannot be recorded")
	}
	for _, r := range list {
		tx.Record(r)
	}
	return nil
}

// revokes reports whether changes take something away from a credential.
func revokes(changes []store.Change) bool {
	for _, c := range changes {
		if c.Old != nil && revocable(c.Old.Kind) {
			return true
		}
	}
	return false
}

// revocable reports whether something that gateways accept hangs on a kind.
func revocable(k *model.Kind) bool {
	return k.Class == model.Credential && k.Announce != model.AnnounceNone
}

// takesCredentials reports whether a resource of a kind takes something along that gateways
// accept when it is deleted, or is that itself.
func (g *Gate) takesCredentials(k *model.Kind) bool {
	if revocable(k) {
		return true
	}
	for _, other := range g.kinds {
		for _, ref := range other.Refs {
			if ref.To == k.Name && ref.OnDelete == model.Cascade && other != k && g.takesCredentials(other) {
				return true
			}
		}
	}
	return false
}

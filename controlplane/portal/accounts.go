package portal

import (
	"context"
	"log/slog"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Writer writes. [admit.Gate] implements it.
type Writer interface {
	Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error)
}

// Options are what accounts work with.
type Options struct {
	Store  store.Store
	Writer Writer
	Log    *slog.Logger
	Now    func() time.Time
	// Organization is the id that events name.
	Organization string
	// Hasher is for passwords; one of the [DefaultCost] if it is nil. Limits are those of logins,
	// [DefaultLimits] if they are zero.
	Hasher *Hasher
	Limits Limits
}

// Accounts are the developers of all portals, as they log in. They are safe for concurrent use.
type Accounts struct {
	Options
	logins, newcomer *guard
	tests            *guard
}

// New returns accounts.
func New(o Options) *Accounts {
	if o.Hasher == nil {
		o.Hasher = NewHasher(DefaultCost)
	}
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits
	}
	return &Accounts{Options: o, logins: newGuard(o.Limits, o.Now), newcomer: newGuard(registrations, o.Now), tests: newGuard(trials, o.Now)}
}

// TooMany is the error of somebody who tries too often.
type TooMany struct{ Wait time.Duration }

// Error implements error.
func (e *TooMany) Error() string { return "there have been too many attempts" }

// Hash returns what is stored of a password.
func (a *Accounts) Hash(ctx context.Context, password string) (string, error) {
	return a.Hasher.Hash(ctx, password)
}

// SetPassword stores the hash of a password in a transaction. Whoever is logged in, or could set another
// one, no longer is or can.
func SetPassword(tx store.Tx, developer, hash string) error {
	err := put(tx, cloud.Passwords, developer, &cloud.Password{Developer: developer, Hash: hash})
	if err == nil {
		err = EndAll(tx, developer)
	}
	if err == nil {
		err = removeAll(tx, cloud.Invitations, developer)
	}
	if err == nil {
		err = removeOne(tx, cloud.Trials, developer)
	}
	return err
}

// EndAll ends all sessions of a developer in a transaction.
func EndAll(tx store.Tx, developer string) error { return removeAll(tx, cloud.Sessions, developer) }

// removeAll removes the resources of a kind that a developer has.
func removeAll(tx store.Tx, k *model.Kind, developer string) error {
	rows, err := tx.List(k, store.Query{Index: cloud.IndexDeveloper, Value: developer})
	for _, row := range rows {
		if err == nil {
			err = tx.Delete(k, "", row.Name, 0)
		}
	}
	return err
}

// removeOne removes a resource, if it is there.
func removeOne(tx store.Tx, k *model.Kind, name string) error {
	if err := tx.Delete(k, "", name, 0); !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// put writes a resource, whether there is one or not.
func put(tx store.Tx, k *model.Kind, name string, spec any) error {
	res := &model.Resource{Kind: k, Name: name, Spec: spec}
	_, err := tx.Get(k, "", name)
	switch {
	case fault.Is(err, fault.NotFound):
		_, err = tx.Create(res)
	case err == nil:
		_, err = tx.Update(res, 0)
	}
	return err
}

// get reads a spec; nil if there is none.
func get[T any](r store.Reader, k *model.Kind, name string) (*T, error) {
	res, err := r.Get(k, "", name)
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // nil is none
	}
	if err != nil {
		return nil, err
	}
	spec, ok := res.Spec.(*T)
	if !ok {
		return nil, fault.New(fault.Internal, "a %s cannot be read", k.Name)
	}
	return spec, nil
}

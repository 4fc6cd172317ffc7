package delivery

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/lease"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// sweep removes what is left of portals that are gone: a process that ended while it removed the events of one,
// a sink that stored how far it was afterwards, and each lease leave rows that nobody else would ever remove. The
// leases of syslog sinks that are gone go, too.
func (e *Engine) sweep(ctx context.Context, held *lease.Lease) error {
	named := map[string]bool{}
	var idle []string
	err := e.Store.View(ctx, func(r store.Reader) (err error) {
		clear(named)
		if err := e.named(r, named); err != nil {
			return err
		}
		idle, err = e.sinkLeases(r)
		return err
	})
	for _, name := range idle {
		_, failed := e.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
			return errors.Join(held.Check(tx), e.Leases.Remove(tx, name))
		})
		err = errors.Join(err, failed)
	}
	for portal := range maps.Keys(named) {
		if ctx.Err() != nil {
			return err
		}
		_, failed := e.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
			if err := held.Check(tx); err != nil {
				return err
			}
			return e.sweepPortal(tx, portal)
		})
		err = errors.Join(err, failed)
	}
	return err
}

// named collects the names of portals that are gone, as far as other rows have them.
func (e *Engine) named(r store.Reader, names map[string]bool) error {
	scopes, err := scopesOfSinks(r)
	if err != nil {
		return err
	}
	lists := []func() ([]*model.Resource, error){
		func() ([]*model.Resource, error) { return store.ListAll(r, cloud.Positions, store.Query{}) },
		func() ([]*model.Resource, error) { return store.ListAll(r, cloud.Deliveries, store.Query{}) },
	}
	for _, scope := range scopes {
		lists = append(lists, func() ([]*model.Resource, error) {
			return store.ListAll(r, cloud.SinkPositions, store.Query{Scope: scope})
		})
	}
	for _, list := range lists {
		rows, err := list()
		if err != nil {
			return err
		}
		for _, row := range rows {
			names[row.Name] = true
		}
	}
	rows, err := store.ListAll(r, lease.Leases, store.Query{})
	for _, row := range rows {
		if portal, ok := strings.CutPrefix(row.Name, hookLease); ok {
			names[portal] = true
		}
	}
	for portal := range names {
		is, failed := gone(r, portal)
		if err = errors.Join(err, failed); !is {
			delete(names, portal)
		}
	}
	return err
}

// sinkLeases are the names of the leases of syslog sinks that are gone.
func (e *Engine) sinkLeases(r store.Reader) (names []string, err error) {
	scopes, err := scopesOfSinks(r)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, scope := range scopes {
		known[scope] = true
	}
	for _, s := range e.sinks { // they may not be stored yet
		known[s.scope] = true
	}
	rows, err := store.ListAll(r, lease.Leases, store.Query{})
	for _, row := range rows {
		if scope, ok := strings.CutPrefix(row.Name, sinkLease); ok && !known[scope] {
			names = append(names, row.Name)
		}
	}
	return names, err
}

// gone reports whether a portal is gone, and its events are. The log of the control plane is no portal, and never
// gone.
func gone(r store.Reader, portal string) (bool, error) {
	if portal == cloud.ControlPlaneLog {
		return false, nil
	}
	for _, k := range []*model.Kind{cloud.Portals, cloud.Webhooks} {
		switch _, err := r.Get(k, "", portal); {
		case err == nil, errors.Is(err, store.ErrUnreadable):
			return false, nil
		case !fault.Is(err, fault.NotFound):
			return false, err
		}
	}
	n, err := r.Count(cloud.Events, store.Query{Scope: portal})
	return n == 0, err
}

// sweepPortal removes the rows of a portal if it is gone. All of them go at once: a position that was made anew
// would count from 1 on, behind which a sink would not look.
func (e *Engine) sweepPortal(tx store.Tx, portal string) error {
	is, err := gone(tx, portal)
	if err != nil || !is {
		return err
	}
	if err := tx.Delete(cloud.Deliveries, "", portal, 0); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if _, err := Purge(tx, portal, 1); err != nil {
		return err
	}
	return e.Leases.Remove(tx, hookLease+portal)
}

package delivery

import (
	"context"
	"errors"
	"strings"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/lease"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// sweep removes what is left of portals that are gone: rows that a process did not come to that ended while it
// removed a portal, how far a sink was that stored it afterwards, and leases, which nobody else would ever remove. The
// leases of syslog sinks that are gone go, too.
func (e *Engine) sweep(ctx context.Context, held *lease.Lease) error {
	var portals, idle []string
	err := e.Store.View(ctx, func(r store.Reader) (err error) {
		if portals, err = e.left(r); err == nil {
			idle, err = e.sinkLeases(r)
		}
		return err
	})
	if err != nil {
		return err
	}
	remove := func(removal func(store.Tx) error) {
		if ctx.Err() != nil {
			return
		}
		_, failed := e.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
			if err := held.Check(tx); err != nil {
				return err
			}
			return removal(tx)
		})
		err = errors.Join(err, failed)
	}
	for _, name := range idle {
		remove(func(tx store.Tx) error { return e.Leases.Remove(tx, name) })
	}
	for _, portal := range portals {
		remove(func(tx store.Tx) error { return e.sweepPortal(tx, portal) })
		e.forgetTried(portal)
	}
	return err
}

// left are the names of portals that are gone and have rows.
func (e *Engine) left(r store.Reader) (portals []string, err error) {
	names, err := e.named(r)
	if err != nil {
		return nil, err
	}
	for portal := range names {
		is, err := gone(r, portal)
		if err != nil {
			return nil, err
		}
		if is {
			portals = append(portals, portal)
		}
	}
	return portals, nil
}

// named are the names of portals, whether there are these or not, as far as rows that say how far logs are and
// leases have them.
func (e *Engine) named(r store.Reader) (names map[string]bool, err error) {
	scopes, err := scopesOfSinks(r)
	if err != nil {
		return nil, err
	}
	names = map[string]bool{}
	note := func(k *model.Kind, scope string) {
		rows, failed := store.ListAll(r, k, store.Query{Scope: scope})
		for _, row := range rows {
			names[row.Name] = true
		}
		err = errors.Join(err, failed)
	}
	note(cloud.Positions, "")
	note(cloud.Deliveries, "")
	for _, scope := range scopes {
		note(cloud.SinkPositions, scope)
	}
	rows, failed := store.ListAll(r, lease.Leases, store.Query{})
	for _, row := range rows {
		if portal, ok := strings.CutPrefix(row.Name, hookLease); ok {
			names[portal] = true
		}
	}
	return names, errors.Join(err, failed)
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

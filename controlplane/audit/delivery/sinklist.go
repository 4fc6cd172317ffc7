package delivery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// scopeOf is the scope of the positions of a sink.
func scopeOf(address string) string {
	sum := sha256.Sum256([]byte(address))
	return hex.EncodeToString(sum[:8])
}

// sinksOf are the sinks that get the events of all portals.
func sinksOf(r store.Reader) (cloud.Sinks, error) {
	s, err := specOf[cloud.Sinks](r, cloud.AllSinks, cloud.SyslogSinks)
	if err != nil || s == nil {
		return cloud.Sinks{}, err
	}
	return *s, nil
}

// scopesOfSinks are the scopes of the positions of all sinks that are stored, also if the list of the sinks cannot
// be read: each sink has a mark, too.
func scopesOfSinks(r store.Reader) ([]string, error) {
	marks, err := store.ListAll(r, cloud.SinkPositions, store.Query{})
	if err != nil {
		return nil, err
	}
	var scopes []string
	for _, mark := range marks {
		scopes = append(scopes, mark.Name)
	}
	sinks, err := sinksOf(r)
	if err != nil && !errors.Is(err, store.ErrUnreadable) {
		return nil, err
	}
	for _, address := range sinks.Addresses {
		if scope := scopeOf(address); !slices.Contains(scopes, scope) { // an older program made no marks
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

// markSink stores that there is a sink of a scope.
func markSink(tx store.Tx, scope string) error {
	stored, _, err := rowOf(tx, cloud.SinkPositions, "", scope)
	if err == nil && stored == nil {
		_, err = tx.Create(&model.Resource{Kind: cloud.SinkPositions, Name: scope, Spec: &cloud.SinkPosition{}})
	}
	return err
}

// registered is [Engine.register], tried until it succeeds: a disk that is full, or a row that is damaged, must
// not end the control plane. It returns false if ctx ends before.
func (e *Engine) registered(ctx context.Context) bool {
	for tries := 0; ; tries++ {
		err := e.register(ctx)
		if err == nil {
			return true
		}
		if tries == 0 && ctx.Err() == nil {
			e.Log.Error("the syslog sinks of audit logs are not stored, and get nothing until they are, which is tried again", "error", err)
		}
		if e.Rest(ctx, backOff(tries)) != nil {
			return false
		}
	}
}

// register stores which sinks there are, so that events are kept for them. A new one gets what happens
// from now on.
func (e *Engine) register(ctx context.Context) error {
	var addresses []string
	for _, s := range e.sinks {
		addresses = append(addresses, s.conn.Target.String())
	}
	_, err := e.Writer.Write(ctx, model.Config, func(tx store.Tx) error {
		next := cloud.Sinks{Addresses: addresses, ControlPlane: e.ControlPlane}
		for _, address := range addresses {
			if err := markSink(tx, scopeOf(address)); err != nil {
				return err
			}
		}
		old, err := sinksOf(tx)
		unread := errors.Is(err, store.ErrUnreadable)
		if !unread && (err != nil || slices.Equal(old.Addresses, addresses) && old.ControlPlane == next.ControlPlane) {
			return err
		}
		if err := forgetOthers(tx, addresses); err != nil {
			return err
		}
		// Which of them are new cannot be told if the list cannot be read: each goes on where it was, and one
		// that was nowhere begins with what there is.
		if !unread {
			if err := beginNew(tx, &old, &next); err != nil {
				return err
			}
		}
		return set(tx, cloud.AllSinks, "", cloud.SyslogSinks, &next)
	})
	return err
}

// forgetOthers forgets all sinks but those of some addresses.
func forgetOthers(tx store.Tx, addresses []string) error {
	scopes, err := scopesOfSinks(tx)
	if err != nil {
		return err
	}
	for _, scope := range scopes {
		if slices.ContainsFunc(addresses, func(address string) bool { return scopeOf(address) == scope }) {
			continue
		}
		if err := forgetSink(tx, scope); err != nil {
			return err
		}
	}
	return nil
}

func forgetSink(tx store.Tx, scope string) error {
	rows, err := store.ListAll(tx, cloud.SinkPositions, store.Query{Scope: scope})
	for _, row := range rows {
		if err := tx.Delete(cloud.SinkPositions, scope, row.Name, row.Version); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if err := tx.Delete(cloud.SinkPositions, "", scope, 0); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// beginNew lets new sinks begin, and all with the log of the control plane itself if that is new to them.
func beginNew(tx store.Tx, old, next *cloud.Sinks) error {
	for _, address := range next.Addresses {
		portal, again := cloud.ControlPlaneLog, next.ControlPlane && !old.ControlPlane
		if !slices.Contains(old.Addresses, address) {
			portal, again = "", true
		}
		if again {
			if err := beginSink(tx, scopeOf(address), portal); err != nil {
				return err
			}
		}
	}
	return nil
}

// beginSink lets a sink begin with what happens from now on at a portal, or at all of them if it has no
// name.
func beginSink(tx store.Tx, scope, portal string) error {
	rows, err := store.ListAll(tx, cloud.Positions, store.Query{})
	for _, row := range rows {
		if portal != "" && portal != row.Name {
			continue
		}
		position, err := positionIn(tx, row.Name)
		if err != nil {
			return err
		}
		done := position.Spec.(*cloud.Position).Last
		if err := set(tx, cloud.SinkPositions, scope, row.Name, &cloud.SinkPosition{Done: done}); err != nil {
			return err
		}
	}
	return err
}

// set writes a resource, whether there is one or not.
func set(tx store.Tx, k *model.Kind, scope, name string, spec any) error {
	res := &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
	stored, _, err := rowOf(tx, k, scope, name)
	switch {
	case err != nil:
	case stored != nil:
		_, err = tx.Update(res, stored.Version)
	default:
		_, err = tx.Create(res)
	}
	return err
}

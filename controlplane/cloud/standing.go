package cloud

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Standing says by its own revision and time when the configuration of a control plane was changed
// last. It has the name of the control plane and goes with it. Change records say the same, but only
// until they are removed.
type Standing struct {
	ControlPlane string `json:"control_plane" jsonschema_extras:"x-refers-to=control_plane,x-on-delete=cascade"`
}

// Standings is the kind of standings, which no API shows.
var Standings = model.Describe(Standing{}, model.Kind{
	Name: "control_plane_standing", Path: "control-plane-standings", Scoping: model.Global, Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
})

// StandingOf reads when the configuration of a scope was changed last; nil if it never was. Only the revision and
// the times of the row count, and these are known of one whose spec cannot be read, too.
func StandingOf(r store.Reader, scope string) (*model.Resource, error) {
	res, err := r.Get(Standings, "", IDOf(scope))
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // nil is never
	}
	if bare := store.UnreadIn(err); bare != nil {
		return bare, nil
	}
	return res, err
}

// Note notes which control planes a transaction changes. Each transaction must be followed by it; see
// [admit.Gate.Accompany].
func Note(tx store.Tx) error {
	noted := map[string]bool{}
	for _, c := range tx.Changes() {
		res := c.New
		if res == nil {
			res = c.Old
		}
		if noted[res.Scope] || !configures(res.Kind) {
			continue
		}
		noted[res.Scope] = true
		if err := note(tx, IDOf(res.Scope)); err != nil {
			return err
		}
	}
	return nil
}

// configures reports whether views of control planes follow a kind, so that gateways may get something
// else when one is made.
func configures(k *model.Kind) bool {
	return k.Scoping == model.ControlPlane && (k.Class == model.Config || k.Class == model.Credential && k.Announce == model.AnnounceAll)
}

// note writes the standing of a control plane, unless that is deleted in the same transaction. A row
// that cannot be read keeps nobody from writing: a standing is made anew.
func note(tx store.Tx, id string) error {
	_, err := tx.Get(ControlPlanes, "", id)
	if fault.Is(err, fault.NotFound) || errors.Is(err, store.ErrUnreadable) {
		return nil
	}
	if err != nil {
		return err
	}
	now := &model.Resource{Kind: Standings, Name: id, Spec: &Standing{ControlPlane: id}}
	_, err = tx.Get(Standings, "", id) // an update of a row that cannot be read would break the transaction
	switch {
	case err == nil:
		_, err = tx.Update(now, 0)
		return err
	case errors.Is(err, store.ErrUnreadable):
		if err := tx.Delete(Standings, "", id, 0); err != nil {
			return err
		}
	case !fault.Is(err, fault.NotFound):
		return err
	}
	_, err = tx.Create(now)
	return err
}

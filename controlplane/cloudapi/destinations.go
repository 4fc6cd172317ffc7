package cloudapi

import (
	"net/http"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// auditDestinations is the collection of audit log destinations.
var auditDestinations = &Collection{
	Kind: cloud.Destinations, Title: "Audit log destination", Global: true, Created: http.StatusOK, Paging: byCursor, Filters: []string{"name"},
	Guard: guardDestination,
	Blank: map[string]string{"authorization": "cannot be blank", "endpoint": "cannot be blank"},
}

// guardDestination leaves the destination of the control plane's own log to administrators: who may
// change where it leads could switch it off unseen, or read it. Nor do they while its end waits for the receiver
// that it is for: the log is off, so nobody would hear of that change.
func guardDestination(a *API, r *http.Request, reader store.Reader, res *model.Resource) error {
	own, err := hookedIn(reader, cloud.ControlPlaneLog)
	switch {
	case unreadHook(err): // it may be any of them
	case err != nil || own.hook.Destination != res.Name:
		return err
	}
	if err := httpkit.Permit(a.Rules, r, access.Administrator, access.Scope{}, func(who model.Actor) string {
		return httpkit.Cannot(who, "the destination of the control plane's audit log")
	}); err != nil {
		return err
	}
	if own.hook.Destination == res.Name && !own.hook.Enabled && own.ended() != nil {
		return conflict("The last events of the audit log are not delivered to this destination yet; switch the log on to change it, or wait: they are given up after seven days")
	}
	return nil
}

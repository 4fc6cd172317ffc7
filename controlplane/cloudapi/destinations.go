package cloudapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// auditDestinations is the collection of audit log destinations.
var auditDestinations = &Collection{
	Kind: cloud.Destinations, Title: "Audit log destination", Global: true, Created: http.StatusOK, Paging: byCursor, Filters: []string{"name"},
	Guard: guardDestination, Acceptable: reachableEndpoint, Removable: unusedDestination,
	Sentences: map[mistaken]sentence{
		{"authorization", ruleRequired}: blank, {"endpoint", ruleRequired}: blank,
		{"endpoint", ruleInvalid}: {title: titleBad, detail: "Invalid endpoint"},
	},
}

// blank is said of a member that is missing or holds nothing but white space.
var blank = sentence{title: titleBad, detail: "Required field missing", reason: "cannot be blank"}

// reachableEndpoint refuses an endpoint that is written as an address to which nothing is ever sent. It helps whoever
// writes it, and protects nothing: what a name leads to is judged when it is connected to.
func reachableEndpoint(a *API, given map[string]any) error {
	endpoint, ok := given["endpoint"].(string)
	if !ok {
		return nil
	}
	if err := a.Foresee(endpoint); err != nil {
		return fault.Violated([]fault.Violation{{Path: "endpoint", Message: err.Error()}})
	}
	return nil
}

// guardDestination leaves the destination of the control plane's own log to administrators: who may
// change where it leads could switch it off unseen, or read it. Nor do they while its end waits for the receiver
// that it is for: the log is off, so nobody would hear of that change.
func guardDestination(a *API, r *http.Request, given map[string]any, reader store.Reader, res *model.Resource) error {
	if err := a.keepsCredential(r, given, res.Spec.(*cloud.Destination)); err != nil {
		return err
	}
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
	// One that cannot be read names no destination, and is mended by a webhook that does.
	if own.hook.Destination == res.Name && !own.hook.Enabled && own.mustHaveEnded() != nil {
		return conflict("The last events of the audit log are not delivered to this destination yet; switch the log on to change it, or wait: they are given up after seven days")
	}
	return nil
}

// keepsCredential refuses a change by which the stored credential would be sent to somebody else: with
// another endpoint, or without a check of the certificate. Nobody reads it, and who could lead it elsewhere
// would. So whoever does not give it anew must be an administrator. Every other text is another endpoint: of
// one host there may be several tenants, and one name has many spellings.
func (a *API) keepsCredential(r *http.Request, given map[string]any, was *cloud.Destination) error {
	_, anew := given["authorization"]
	endpoint, elsewhere := given["endpoint"]
	leads := elsewhere && endpoint != was.Endpoint
	if skip, ok := given["skip_ssl_verification"]; ok {
		leads = leads || fmt.Sprint(skip) != "false" && !was.SkipSSLVerification
	}
	if anew || !leads {
		return nil
	}
	return httpkit.Permit(a.Rules, r, access.Administrator, access.Scope{}, func(model.Actor) string {
		return "the stored authorization would be sent elsewhere: give authorization again"
	})
}

// namedUsers bounds the users of a destination that a refusal names.
const namedUsers = 10

// unusedDestination refuses the deletion of a destination that webhooks name, and says whose.
func unusedDestination(reader store.Reader, res *model.Resource) error {
	of := store.Query{Index: fieldDestination, Value: res.Name}
	all, err := reader.Count(cloud.Webhooks, of)
	if err != nil || all == 0 {
		return err
	}
	of.Limit = namedUsers
	hooks, err := reader.List(cloud.Webhooks, of)
	if err != nil {
		return err
	}
	users := make([]string, len(hooks))
	for i, hook := range hooks {
		if hook.Name == cloud.ControlPlaneLog {
			users[i] = "of the control plane itself"
			continue
		}
		at, err := reader.Get(cloud.Portals, "", hook.Name)
		if err != nil {
			return err
		}
		users[i] = fmt.Sprintf("of portal %q (%s)", at.Spec.(*cloud.Portal).Name, at.Name)
	}
	more := ""
	if n := all - len(users); n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	return conflict("The destination is used by the audit log webhook " + strings.Join(users, ", ") + more)
}

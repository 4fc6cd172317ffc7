package cloudapi

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/outward"
	"github.com/meshgate/meshgate/controlplane/portal"
	"github.com/meshgate/meshgate/controlplane/store"
)

// base is the prefix of all paths.
const base = "/v2"

// nameOf is the name of this API in the audit log.
const nameOf = "cloud"

// Options configure an API.
type Options struct {
	Store store.Store
	Gate  *admit.Gate
	Log   *slog.Logger
	Now   func() time.Time
	// Version is that of the program.
	Version string
	// Vendor begins the ids of errors.
	Vendor string
	// Identify returns the caller of a request.
	Identify func(*http.Request) (model.Actor, error)
	// Rules decide what callers may do.
	Rules *access.Rules
	// Accounts are the developers of portals.
	Accounts *portal.Accounts
	// PortalDomain is the domain in which each portal has a host of its own.
	PortalDomain string
	// Hosts are names of this API, in lower case. On them there is never only a portal, whatever
	// domain it has.
	Hosts []string
	// Signer signs audit events; its public keys are shown to everybody.
	Signer *audit.Signer
	// Trusted are the networks of proxies that say for which clients they speak; see [httpkit.Behind].
	Trusted []netip.Prefix
	// Refused, if set, learns of refused calls.
	Refused func(httpkit.Refusal)
	// Foresee returns why nothing would be sent to the endpoint of a destination, as far as its text says so; nil
	// allows public addresses only. See [outward.Options.Foresee].
	Foresee func(endpoint string) error
	// Global and Regional are the parts of the API that are served.
	Global, Regional bool
	// Planes is what control planes need.
	Planes PlaneOptions
}

// API serves the cloud API.
type API struct {
	Options
	collections []*Collection
	// started is when this process began to know who is connected.
	started time.Time
	// described makes the OpenAPI document once.
	described func() ([]byte, error)
}

// New returns the API.
func New(o Options) *API {
	if o.Foresee == nil {
		o.Foresee = new(outward.Options).Foresee
	}
	a := &API{Options: o, collections: Collections(), started: o.Now()}
	a.described = sync.OnceValues(a.describe)
	return a
}

// Collections returns the collections of the API.
func Collections() []*Collection {
	return []*Collection{
		accessTokens,
		auditDestinations,
	}
}

// everyEndpoint lists the endpoints of this API and of portals.
func (a *API) everyEndpoint() []httpkit.Endpoint {
	list := a.Endpoints()
	if a.Regional {
		list = append(list, a.SiteEndpoints()...)
	}
	return list
}

// Endpoints lists all endpoints but those of portals.
func (a *API) Endpoints() (list []httpkit.Endpoint) {
	for _, c := range a.collections {
		if c.Global && !a.Global || !c.Global && !a.Regional {
			continue
		}
		list = append(list, a.endpoints(c)...)
	}
	if a.Global {
		list = append(list, a.ownEndpoints()...)
	}
	if a.Regional {
		list = append(list, a.portalEndpoints()...)
		list = append(list, a.planeEndpoints()...)
	}
	return append(list, a.keyEndpoint(), a.documentEndpoint())
}

// Handler returns the handler of all endpoints.
func (a *API) Handler() http.Handler {
	refuse := func(w http.ResponseWriter, r *http.Request, err error) { a.fail(w, r, err, nil) }
	router := httpkit.NewRuledRouter(a.Endpoints(), a.Rules, refuse).Missing(
		func(w http.ResponseWriter, r *http.Request) { a.missing(w, r, http.StatusNotFound) },
		func(w http.ResponseWriter, r *http.Request) { a.missing(w, r, http.StatusMethodNotAllowed) },
	)
	return httpkit.Behind(a.Trusted, a.besides(httpkit.Administered(nameOf, a.Refused, httpkit.Identified(a.Identify, refuse, router))))
}

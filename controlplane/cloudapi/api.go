package cloudapi

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// base is the prefix of all paths.
const base = "/v2"

// Options configure an API.
type Options struct {
	Store store.Store
	Gate  *admit.Gate
	Log   *slog.Logger
	Now   func() time.Time
	// Vendor begins the ids of errors.
	Vendor string
	// Identify returns the caller of a request.
	Identify func(*http.Request) (model.Actor, error)
	// Rules decide what callers may do.
	Rules *access.Rules
	// Global and Regional are the parts of the API that are served.
	Global, Regional bool
}

// API serves the cloud API.
type API struct {
	Options
	collections []*Collection
}

// New returns the API.
func New(o Options) *API { return &API{Options: o, collections: Collections()} }

// Collections returns the collections of the API.
func Collections() []*Collection {
	return []*Collection{
		{Kind: cloud.AccessTokens, Title: "Personal access token", Global: true, Auth: access.Administrator, Fixed: true, Created: http.StatusCreated, Paging: byNumber, Filters: []string{"name"}, Issue: issueToken},
		{Kind: cloud.Destinations, Title: "Audit log destination", Global: true, Created: http.StatusOK, Paging: byCursor, Filters: []string{"name"}, Blank: map[string]string{
			"authorization": "cannot be blank", "endpoint": "cannot be blank",
		}},
	}
}

// Endpoints lists all endpoints.
func (a *API) Endpoints() (list []httpkit.Endpoint) {
	for _, c := range a.collections {
		if c.Global && !a.Global || !c.Global && !a.Regional {
			continue
		}
		list = append(list, a.endpoints(c)...)
	}
	return list
}

// Handler returns the handler of all endpoints.
func (a *API) Handler() http.Handler {
	refuse := func(w http.ResponseWriter, r *http.Request, err error) { a.fail(w, r, err, nil) }
	router := httpkit.NewRuledRouter(a.Endpoints(), a.Rules, refuse).Missing(
		func(w http.ResponseWriter, r *http.Request) { a.missing(w, r, http.StatusNotFound) },
		func(w http.ResponseWriter, r *http.Request) { a.missing(w, r, http.StatusMethodNotAllowed) },
	)
	return httpkit.Identified(a.Identify, refuse, router)
}

// issueToken makes a personal access token, which is shown once.
func issueToken() (hidden, shown map[string]any) {
	token, digest := cloud.IssueToken()
	return map[string]any{"digest": digest}, map[string]any{"token": token}
}

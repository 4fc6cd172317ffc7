package cloudapi

import (
	"net/http"
	"slices"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// olderPath is below which the declarative tool looks for control planes in its cloud mode. The tool
// has this path built in, so its words stand here and nowhere else.
const olderPath = "/konnect-api/api/runtime_groups"

// olderEndpoints are what the declarative tool asks for in its cloud mode (1.40.0). It reads and
// writes entities as on the administration API, below its control plane. It finds that by its name,
// and tells the name of the organization as whom it has logged in. It does not read applications
// (/oauth2), and writes them under new ids in each run: so a known client_id of the same consumer there
// is the application that has it, and not a conflict.
func (p planes) olderEndpoints() []httpkit.Endpoint {
	entities := p.entities(olderPath + "/{" + pathID + "}")
	for i := range entities {
		next := entities[i].Handler
		entities[i].Handler = func(w http.ResponseWriter, r *http.Request) { next(w, p.api.Planes.Unlisted(r)) }
	}
	return append(entities,
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: base + "/organizations/me", Auth: access.Known, Summary: "Who runs this, in which region", Handler: p.organization}, "", http.StatusOK, schemaOrganization),
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: olderPath, Auth: access.Known, Summary: "List control planes by their names, as the declarative tool asks for them", Handler: p.olderList}, "", http.StatusOK, schemaOlder,
			httpkit.Parameter{Name: "size", Type: "integer", Summary: "Means nothing: all are on one page"}, httpkit.Parameter{Name: "page", Type: "integer", Summary: "Means nothing: there is one page"}),
	)
}

func (p planes) organization(w http.ResponseWriter, r *http.Request) {
	p.reply(w, r, http.StatusOK, located{p.api.Planes.Organization, p.api.Planes.Region})
}

// olderItem is a control plane in the older list.
type olderItem struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// olderList answers with all control planes on one page.
func (p planes) olderList(w http.ResponseWriter, r *http.Request) {
	var rows []*model.Resource
	err := p.api.Store.View(r.Context(), func(reader store.Reader) (err error) {
		rows, err = reader.List(p.Kind, store.Query{})
		return err
	})
	if err != nil {
		p.api.fail(w, r, err, p.Collection)
		return
	}
	rows = slices.DeleteFunc(slices.Clone(rows), func(res *model.Resource) bool { return !p.readable(r, res) })
	data := make([]olderItem, len(rows))
	for i, res := range rows {
		data[i] = olderItem{res.Name, res.Spec.(*cloud.ControlPlane).Name}
	}
	p.reply(w, r, http.StatusOK, map[string]any{"data": data, "page": 1, "pageCount": 1})
}

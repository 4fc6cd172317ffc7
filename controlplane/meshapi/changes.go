package meshapi

import (
	"net/http"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/store"
)

// changeList is the body of GET /changes. Next holds the number of a record in place
// of the index of an item, so that what is written meanwhile moves nothing to another
// page.
type changeList struct {
	Total int             `json:"total"`
	Items []changes.Shown `json:"items"`
	Next  *string         `json:"next"`
	// Oldest is the least revision since which nothing is lost.
	Oldest uint64 `json:"oldest"`
}

// changesEndpoint shows the changes of everything.
func (a *API) changesEndpoint() httpkit.Endpoint {
	e := endpoint(http.MethodGet, "/changes", httpkit.Administrator, "Who changed what", mediaJSON, a.changes)
	return about("changes", does(e, shows(schemaChanges,
		httpkit.Parameter{Name: changes.ParamSince, Type: "integer", Summary: "Only what was committed after this revision, the oldest first; without it the newest come first"},
		httpkit.Parameter{Name: changes.ParamKind, Type: "string", Summary: "Only resources of this kind, such as Mesh or timeouts; with ! before it, such as !timeouts, all but those"},
		httpkit.Parameter{Name: changes.ParamScope, Type: "string", Summary: "Only this mesh or control plane"},
		httpkit.Parameter{Name: changes.ParamActor, Type: "string", Summary: "Only changes of this actor: a name, or user:, token:, node: or system: and a name"},
		httpkit.Parameter{Name: changes.ParamTokens, Type: "boolean", Summary: "Changes of access tokens, too, which are left out otherwise unless kind asks for them"},
		paramSize,
		httpkit.Parameter{Name: changes.ParamOffset, Type: "integer", Summary: "The number of the record to go on behind; see next"},
	))).Closed()
}

// changes answers with a page of the changes of all meshes and control planes.
func (a *API) changes(w http.ResponseWriter, r *http.Request) {
	query, err := httpkit.Query(r)
	if err != nil {
		fail(w, r, opDecode, fault.Wrap(fault.Invalid, err, "the query is malformed"))
		return
	}
	size, err := pageSize(query.Get(changes.ParamSize))
	if err != nil {
		fail(w, r, opSize, err)
		return
	}
	q, err := changes.Parse(query, a.Recorded)
	if err != nil {
		fail(w, r, opList, err)
		return
	}
	var page changes.Page
	var total int
	if err := a.Store.View(r.Context(), func(reader store.Reader) (err error) {
		if page, err = changes.Read(reader, q, size); err == nil {
			total, err = reader.CountRecords(q)
		}
		return err
	}); err != nil {
		fail(w, r, opList, err)
		return
	}
	doc := changeList{Total: total, Items: page.Records, Oldest: page.Oldest}
	if page.Next != 0 {
		next := nextPage(r, query, strconv.FormatUint(page.Next, 10))
		doc.Next = &next
	}
	reply(w, r, http.StatusOK, doc)
}

package gatewayapi

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/openapi"
	"github.com/meshgate/meshgate/controlplane/store"
)

// changesEndpoint shows what was changed in this control plane.
func (a *API) changesEndpoint() httpkit.Endpoint {
	e := answering(administered(endpoint(http.MethodGet, "/changes", "Who changed what", a.changes)), schemaChanges)
	e.Contract.Query = []httpkit.Parameter{
		{Name: changes.ParamSince, Type: "integer", Summary: "Only what was committed after this revision, the oldest first; without it the newest come first"},
		{Name: changes.ParamKind, Type: "string", Summary: "Only resources of this kind, such as route or plugins; with ! before it, such as !plugins, all but those"},
		{Name: changes.ParamScope, Type: "string", Summary: "Only this control plane; this API knows its own only"},
		{Name: changes.ParamActor, Type: "string", Summary: "Only changes of this actor: a name, or user:, token:, node: or system: and a name"},
		{Name: changes.ParamTokens, Type: "boolean", Summary: "Changes of access tokens, too, which are left out otherwise unless kind asks for them"},
		{Name: changes.ParamSize, Type: "integer", Summary: "How many, 1 to 1000; 100 if not given"},
		{Name: changes.ParamOffset, Type: "string", Summary: "Where to go on: the offset of the page before"},
	}
	return e.Closed()
}

// changes answers with a page of the changes of this control plane. Meshes are not its
// business, also where one has the same name.
func (a *API) changes(w http.ResponseWriter, r *http.Request) {
	query, err := httpkit.Query(r)
	if err != nil {
		a.fail(w, r, err, call{})
		return
	}
	size, err := pageSize(query)
	if err != nil {
		a.fail(w, r, err, call{})
		return
	}
	kinds := make([]*model.Kind, len(a.Collections))
	for i, c := range a.Collections {
		kinds[i] = c.Kind
	}
	q, err := changes.Parse(query, kinds)
	if err == nil && q.Scope != "" && q.Scope != a.scope(r) {
		err = fault.Violated([]fault.Violation{{Path: changes.ParamScope, Message: "this API shows the control plane " + strconv.Quote(a.scope(r)) + " only; the mesh API shows all"}})
	}
	if err != nil {
		a.fail(w, r, badOption(err), call{})
		return
	}
	own := model.ControlPlane
	q.Scope, q.Scoping = a.scope(r), &own
	var page changes.Page
	if err := a.Store.View(r.Context(), func(reader store.Reader) (err error) {
		page, err = changes.Read(reader, q, size)
		return err
	}); err != nil {
		a.fail(w, r, err, call{})
		return
	}
	doc := map[string]any{"data": page.Records, "next": nil, "oldest": page.Oldest}
	if page.Next != 0 {
		offset := strconv.FormatUint(page.Next, 10)
		query.Set(changes.ParamOffset, offset)
		doc["offset"], doc["next"] = offset, pathOf(r)+"?"+query.Encode()
	}
	reply(w, r, http.StatusOK, doc)
}

// badOption is the document for a parameter that is wrong, the first of several.
func badOption(err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || len(e.Violations) == 0 {
		return err
	}
	v := e.Violations[0]
	if v.Path == changes.ParamOffset {
		return &problem{http.StatusBadRequest, errorBody{Code: 7, Name: "invalid offset", Message: "offset " + v.Message}}
	}
	options := map[string]any{}
	for _, v := range e.Violations {
		options[v.Path] = v.Message
	}
	return &problem{http.StatusBadRequest, errorBody{
		Code: 11, Name: "invalid options", Message: "invalid option (" + v.Path + ": " + v.Message + ")", Options: options,
	}}
}

// pageOfChanges is the schema of the answer. What is changed here is of a scope always,
// and what it was the cause of is of the same.
func pageOfChanges() *openapi.Schema {
	record := openapi.For[changes.Shown]()
	record.Required = slices.Insert(record.Required, slices.Index(record.Required, "members"), "scoping")
	delete(record.Properties["cause"].Properties, "scoping")
	page := pageOfItems(record)
	page.Required = append(page.Required, "oldest")
	page.Properties["oldest"] = openapi.Count()
	delete(page.Properties, fieldUnreadable)
	return page
}

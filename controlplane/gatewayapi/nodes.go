package gatewayapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/openapi"
)

// Nodes knows all nodes; [nodes.Registry] implements it.
type Nodes interface {
	List(q nodes.Query) nodes.Page
	// Await returns when the list of nodes no longer has the given mark, or when ctx ends.
	Await(ctx context.Context, mark string)
	// Get and Remove return NotFound for an unknown node; Remove returns Conflict for a
	// connected one. allowed, if set, may refuse the deletion of what is stored of it.
	Get(name string) (nodes.Node, error)
	Remove(ctx context.Context, name string, allowed func(*model.Kind) error) error
	// RemoveFormer removes the former processes of a node that is connected with a new one.
	RemoveFormer(name string) error
}

// Dumps shows the configuration that nodes hold; [inspect.Dumps] implements it.
type Dumps interface {
	// XDS calls show with the dump of a node, a JSON object with the key configs. from is the
	// source in the query, or empty. An Invalid fault is about from.
	XDS(ctx context.Context, node, from string, show func(dump []byte)) error
	// Compare calls show with a JSON object: for each resource of a node the versions that it
	// should have, was sent and has acknowledged; with diff, also their difference.
	Compare(ctx context.Context, node string, diff bool, show func(doc []byte)) error
}

// pathNode is the name of a node in a path.
const pathNode = "node"

// nodeEndpoints returns the endpoints about all nodes, including sidecars. Nodes are not
// entities, so even a read-only API can remove gateways.
func (a *API) nodeEndpoints() []httpkit.Endpoint {
	if a.Nodes == nil {
		return nil
	}
	list := administered(endpoint(http.MethodGet, "/nodes", "Every node, connected or away", a.listNodes))
	list.Contract.Query = []httpkit.Parameter{
		{Name: "size", Type: "integer", Summary: "How many, 1 to 1000; 100 if not given"},
		{Name: "offset", Type: "string", Summary: "Where to go on: the offset of the page before"},
		{Name: "state", Type: "string", Summary: "Only those that are connected, away (with those that are refused) or refused"},
		{Name: "name", Type: "string", Summary: "Only those whose names contain this"},
		{Name: "since", Type: "string", Summary: "The mark of an earlier answer: with wait, the answer comes when it has changed"},
		{Name: "wait", Type: "string", Summary: "How long to wait for a change, such as 10s; at most 30s"},
	}
	removed := administered(endpoint(http.MethodDelete, "/nodes/{"+pathNode+"}", "Say that a gateway of this control plane is gone for good", a.removeNode))
	removed.Contract.Query = []httpkit.Parameter{
		{Name: "former", Type: "boolean", Summary: "Only former processes of a node that is connected are gone; nothing else of it is removed"},
	}
	removed.Contract.Answers = answers(http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusConflict)
	removed.Contract.Answers[http.StatusNoContent] = ""
	out := []httpkit.Endpoint{
		answering(list, schemaNodes).Closed(),
		answering(administered(endpoint(http.MethodGet, "/nodes/{"+pathNode+"}", "Read a node", a.readNode)), schemaNode, http.StatusNotFound).Closed(),
		removed.Closed(),
	}
	if a.Dumps == nil {
		return a.aboutNodes(out)
	}
	dump := administered(endpoint(http.MethodGet, "/nodes/{"+pathNode+"}/xds", "Dump the configuration that a node has, without secrets", a.dumpNode))
	dump.Contract.Query = []httpkit.Parameter{{
		Name: "source", Type: "string",
		Summary: "proxy (if not given): what its Envoy says, or what it was sent if it cannot be asked; control-plane: what it was sent, and what became of it",
	}}
	compared := administered(endpoint(http.MethodGet, "/nodes/{"+pathNode+"}/config", "What a node should have, was sent and has acknowledged, without secrets", a.compareNode))
	compared.Contract.Query = []httpkit.Parameter{{Name: nodes.ParamInclude, Type: "string", Summary: "diff: also the JSON patch from what is acknowledged"}}
	return a.aboutNodes(append(out, answering(dump, schemaDump, http.StatusNotFound).Closed(), answering(compared, schemaCompared, http.StatusNotFound).Closed()))
}

// aboutNodes says of the endpoints about one node where they act.
func (a *API) aboutNodes(list []httpkit.Endpoint) []httpkit.Endpoint {
	for i := range list {
		if strings.Contains(list[i].Pattern, "{"+pathNode+"}") {
			list[i].Where = a.atNode
		}
	}
	return list
}

func (a *API) listNodes(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query() // the router has checked that it can be read
	asked, err := nodes.Ask(query)
	if err == nil {
		asked.Size, err = pageSize(query)
	}
	if err == nil {
		asked.After, err = readNodeCursor(query.Get("offset"))
	}
	if err != nil {
		a.fail(w, r, err, call{})
		return
	}
	if asked.Wait > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), asked.Wait)
		defer cancel()
		a.Nodes.Await(ctx, asked.Since)
	}
	sees := a.sees(r, access.Administrator)
	asked.Sees = func(id string) bool { return sees(nodes.ScopeOf(id)) }
	page := a.Nodes.List(asked.Query)
	doc := map[string]any{"data": page.Nodes, "next": nil, "total": page.Total, "mark": page.Mark}
	if page.More {
		follows, offset := nodes.Follows(query), nodeCursor(page.Nodes[len(page.Nodes)-1].Name)
		follows.Set("offset", offset)
		doc["offset"], doc["next"] = offset, pathOf(r)+"?"+follows.Encode()
	}
	reply(w, r, http.StatusOK, doc)
}

// nodeMark returns a hash that binds a name to the list of nodes; see cursor.
func nodeMark(name string) []byte {
	sum := sha256.Sum256([]byte("nodes\n" + name))
	return sum[:cursorSum]
}

// nodeCursor returns the offset after a node. It is a position in the order of names.
func nodeCursor(after string) string {
	return base64.RawURLEncoding.EncodeToString(append(nodeMark(after), after...))
}

func readNodeCursor(offset string) (string, error) {
	if offset == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(offset, "="))
	if err != nil {
		return "", badOffset(offset, "bad base64 encoding")
	}
	if len(raw) < cursorSum || string(nodeMark(string(raw[cursorSum:]))) != string(raw[:cursorSum]) {
		return "", badOffset(offset, "it belongs to no page of this list")
	}
	return string(raw[cursorSum:]), nil
}

func (a *API) readNode(w http.ResponseWriter, r *http.Request) {
	doc, err := a.Nodes.Get(r.PathValue(pathNode))
	if err != nil {
		a.fail(w, r, named(err), call{})
		return
	}
	reply(w, r, http.StatusOK, doc)
}

// dumpNode shows the configuration that a node holds. An error of the answer means that the
// client is gone.
func (a *API) dumpNode(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue(pathNode)
	_, err := a.Nodes.Get(name)
	if err == nil {
		err = a.Dumps.XDS(r.Context(), name, r.URL.Query().Get("source"), func(dump []byte) {
			_ = httpkit.WriteBody(w, http.StatusOK, "application/json; charset=utf-8", dump)
		})
	}
	if err != nil {
		a.fail(w, r, named(err), call{})
	}
}

// compareNode shows what a node should have, was sent and has acknowledged.
func (a *API) compareNode(w http.ResponseWriter, r *http.Request) {
	name, diff := r.PathValue(pathNode), false
	_, err := a.Nodes.Get(name)
	if err == nil {
		diff, err = nodes.WantsDiff(r.URL.Query()[nodes.ParamInclude])
	}
	if err == nil {
		err = a.Dumps.Compare(r.Context(), name, diff, func(doc []byte) {
			_ = httpkit.WriteBody(w, http.StatusOK, "application/json; charset=utf-8", doc)
		})
	}
	if err != nil {
		a.fail(w, r, named(err), call{})
	}
}

func (a *API) removeNode(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue(pathNode)
	former, err := nodes.Former(r.URL.Query())
	if err == nil {
		err = a.ownNode(r, name)
	}
	switch {
	case err != nil:
	case former:
		err = a.Nodes.RemoveFormer(name)
	default:
		err = a.Nodes.Remove(r.Context(), name, nil)
	}
	if err != nil {
		a.fail(w, r, named(err), call{})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// ownNode returns Forbidden for a node that is not a gateway of this control plane. The
// removal of a proxy of a mesh deletes its Dataplane, which belongs to the mesh API.
func (a *API) ownNode(r *http.Request, name string) error {
	d, err := a.Nodes.Get(name)
	switch {
	case err != nil:
		return err
	case d.Type != insight.Gateway:
		return fault.New(fault.Forbidden, "node %s is a proxy of the mesh %q: DELETE /nodes/%s of the mesh API removes it", name, d.Mesh, name)
	case d.ControlPlane != a.scope(r):
		return fault.New(fault.Forbidden, "node %s is a gateway of the control plane %q, and this API is that of %q", name, d.ControlPlane, a.scope(r))
	}
	return nil
}

// named makes the answer to a NotFound fault contain its text, which names the missing
// resource.
func named(err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Code == fault.NotFound {
		return &httpkit.BodyError{Status: http.StatusNotFound, Message: e.Detail}
	}
	return err
}

// describeDump returns the schema of a dump: Envoy's, or the control plane's record.
func describeDump() *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{openapi.Object}, Required: []string{"configs"}, Properties: schemas{
		"configs":      openapi.List(openapi.Of(openapi.Object)),
		"source":       text().Says("Only in records of the control plane: why it is none of the proxy"),
		"acknowledged": openapi.Of(openapi.Boolean).Says("Only in records: the proxy has confirmed all of it"),
		"rejected":     openapi.List(text()).Says("Only in records: what the proxy refuses"),
	}}
}

// pageOfNodes returns the schema of the list.
func pageOfNodes() *openapi.Schema {
	return openapi.Closed(schemas{
		"data": openapi.List(openapi.To(schemaNode)), "next": text().OrNull(), "offset": text(), "total": openapi.Count(), "mark": text(),
	}, "data", "next", "total", "mark")
}

package meshapi

import (
	"net/http"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

const pathOperation = "operation"

// dumps returns the endpoints for the configuration that a dataplane holds. They are for
// administrators only, because a dump reveals a whole mesh.
func (a *API) dumps() []httpkit.Endpoint {
	if a.Dumps == nil || !slices.Contains(a.Kinds, mesh.Dataplanes) {
		return nil
	}
	c := collection{a, mesh.Dataplanes}
	item := prefixMesh + c.kind.Path + "/{" + pathName + "}/"
	return []httpkit.Endpoint{
		about("configuration dumps",
			does(endpoint(http.MethodGet, item+"xds", httpkit.Administrator, "Dump the configuration of a dataplane", mediaJSON, named(c.dump)),
				shows(schemaDump, paramSource), http.StatusNotFound)).About(c.kind.Name),
		does(endpoint(http.MethodGet, item+"{"+pathOperation+"}", httpkit.Open, "Refused: no such operation", mediaJSON, noOperation),
			httpkit.Contract{}, http.StatusNotFound),
	}
}

// noOperation answers for operations that do not exist, whether or not the dataplane exists.
func noOperation(w http.ResponseWriter, r *http.Request) {
	fail(w, r, opDump, fault.New(fault.NotFound, "no such operation"))
}

func (c collection) dump(w http.ResponseWriter, r *http.Request) {
	res, err := c.read(r)
	if err != nil {
		fail(w, r, opDumpTarget, err) // an unknown mesh gets the same answer as an unknown dataplane
		return
	}
	c.api.showDump(w, r, mesh.NodeID(res.Scope, res.Name))
}

// showDump answers with the dump of a node.
func (a *API) showDump(w http.ResponseWriter, r *http.Request, node string) {
	query, err := httpkit.Query(r)
	if err != nil {
		fail(w, r, opDecode, fault.Wrap(fault.Invalid, err, "the query is malformed"))
		return
	}
	err = a.Dumps.XDS(r.Context(), node, query.Get("source"), func(dump []byte) { write(w, http.StatusOK, mediaJSON, dump) })
	if err != nil {
		fail(w, r, opDump, err)
	}
}

// dumpNode shows the configuration that a node of any kind holds. Like all dumps, it is for
// administrators.
func (a *API) dumpNode(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue(pathNode)
	if _, err := a.Nodes.Get(name); err != nil {
		fail(w, r, opNode, err)
		return
	}
	a.showDump(w, r, name)
}

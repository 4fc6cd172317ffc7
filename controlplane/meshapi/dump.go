package meshapi

import (
	"net/http"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

const pathOperation = "operation"

// dumps offers the configuration that a dataplane holds. Administrators only:
// it tells what a whole mesh looks like.
func (a *API) dumps() []httpkit.Endpoint {
	if a.Dumps == nil || !slices.Contains(a.Kinds, mesh.Dataplanes) {
		return nil
	}
	c := collection{a, mesh.Dataplanes}
	item := prefixMesh + c.kind.Path + "/{" + pathName + "}/"
	return []httpkit.Endpoint{
		about("configuration dumps",
			endpoint(http.MethodGet, item+"xds", httpkit.Administrator, "Dump the configuration of a dataplane", mediaJSON, named(c.dump))).About(c.kind.Name),
		endpoint(http.MethodGet, item+"{"+pathOperation+"}", httpkit.Open, "Refused: no such operation", mediaJSON, noOperation),
	}
}

// noOperation answers for operations that do not exist, whether the dataplane
// exists or not.
func noOperation(w http.ResponseWriter, r *http.Request) {
	fail(w, r, opDump, fault.New(fault.NotFound, "no such operation"))
}

func (c collection) dump(w http.ResponseWriter, r *http.Request) {
	res, err := c.read(r)
	if err != nil {
		fail(w, r, opDumpTarget, err) // an unknown mesh is no other case here
		return
	}
	dump, err := c.api.Dumps.XDS(r.Context(), res.Scope, res.Name)
	if err != nil {
		fail(w, r, opDump, err)
		return
	}
	write(w, http.StatusOK, mediaJSON, dump)
}

package meshapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// The paths of kinds that clients of the mesh API may know, and that need not be among those that
// are offered.
const (
	pathGateways      = "meshgateways"
	pathGatewayRoutes = "meshgatewayroutes"
)

// The egress is an ingress here: clients compare this text.
var (
	opFindGateway = operation{title: "Could not find MeshGateway"}
	opFindRoute   = operation{title: "Could not find MeshGatewayRoute"}
	opFindIngress = operation{title: "Could not get zone ingress resource"}
	opOtherZone   = operation{title: "Could not connect to zone ingress that resides in another zone"}
)

// strangers returns the endpoints about resources of kinds that are not offered, and what does not
// exist of ingresses and egresses: every answer is the error document that clients expect where
// one is missing. Without them clients would read the plain text of an unknown path.
func (a *API) strangers() []httpkit.Endpoint {
	if !slices.Contains(a.Kinds, mesh.Dataplanes) {
		return nil
	}
	var list []httpkit.Endpoint
	refuse := func(kind, pattern, summary string, op func(*http.Request) operation) {
		if slices.ContainsFunc(a.Kinds, func(k *model.Kind) bool { return k.Path == kind }) {
			return
		}
		h := func(w http.ResponseWriter, r *http.Request) {
			fail(w, r, op(r), fault.New(fault.NotFound, "no such resource"))
		}
		list = append(list, does(endpoint(http.MethodGet, pattern, access.Known, summary, mediaJSON, named(h)), httpkit.Contract{}, http.StatusNotFound))
	}
	always := func(op operation) func(*http.Request) operation { return func(*http.Request) operation { return op } }
	chosen := "/{" + pathName + "}/" + mesh.Dataplanes.Path
	refuse(pathGateways, prefixMesh+pathGateways+chosen, "Refused: there are no such resources", always(opFindGateway))
	refuse(pathGatewayRoutes, prefixMesh+pathGatewayRoutes+chosen, "Refused: there are no such resources", always(opFindRoute))
	for _, kind := range []*model.Kind{mesh.ZoneIngresses, mesh.ZoneEgresses} {
		pattern := prefixAll + strings.ReplaceAll(kind.Path, "-", "") + "/{" + pathName + "}/{" + pathOperation + "}"
		list = append(list, does(endpoint(http.MethodGet, pattern, access.Read, "Refused: no such operation", mediaJSON, named(collection{a, kind}.unserved)),
			httpkit.Contract{}, http.StatusNotFound).About(kind.Name))
	}
	return list
}

// unserved answers a question about the proxy of a resource that no proxy serves.
func (c collection) unserved(w http.ResponseWriter, r *http.Request) {
	op, err := aboutIngress(r), fault.New(fault.NotFound, "no such resource")
	if op.title == opFindIngress.title && slices.Contains(c.api.Kinds, c.kind) {
		if _, err := c.read(r); err != nil {
			fail(w, r, op, err)
			return
		}
		op, err = opDump, fault.New(fault.Unavailable, "no proxy serves this resource yet")
	}
	fail(w, r, op, err)
}

// aboutIngress returns the operation of a request about a proxy between zones. An operation that
// does not exist is refused before the proxy is looked up.
func aboutIngress(r *http.Request) operation {
	switch r.PathValue(pathOperation) {
	case "xds", "clusters", "stats":
		return opFindIngress
	}
	return opDump
}

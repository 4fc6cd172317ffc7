package meshapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

const pathNode = "node"

// opNode uses the text of the fault, which names the node.
var opNode = operation{"Could not retrieve a node", map[fault.Code]row{fault.NotFound: {status: http.StatusNotFound}}}

// opNodeRemove does the same for a removal.
var opNodeRemove = operation{"Could not remove a node", opNode.rows}

// nodeEndpoints returns the endpoints about all nodes, including gateways. They are for
// administrators only, because reasons of refusals reveal what is wrong with tokens.
func (a *API) nodeEndpoints() []httpkit.Endpoint {
	if a.Nodes == nil {
		return nil
	}
	node := func(method, pattern, summary string, h http.HandlerFunc, c httpkit.Contract, failures ...int) httpkit.Endpoint {
		return about("nodes", does(endpoint(method, pattern, httpkit.Administrator, summary, mediaJSON, h), c, failures...)).Closed()
	}
	list := []httpkit.Endpoint{
		node(http.MethodGet, "/nodes", "List every node, connected or away", a.listNodes, shows(schemaNodes, paramSize, paramOffset, paramSince, paramWait,
			httpkit.Parameter{Name: "state", Type: "string", Summary: "Only those that are connected, away (with those that are refused) or refused"},
			httpkit.Parameter{Name: "name", Type: "string", Summary: "Only those whose names contain this"})),
		node(http.MethodGet, "/nodes/{"+pathNode+"}", "Read a node", a.readNode, shows(schemaNode), http.StatusNotFound),
		node(http.MethodDelete, "/nodes/{"+pathNode+"}", "Say that a node is gone for good", a.removeNode, shows("", httpkit.Parameter{
			Name: "former", Type: "boolean", Summary: "Only former processes of a node that is connected are gone; nothing else of it is removed",
		}), http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusConflict),
	}
	if a.Dumps != nil {
		dump := endpoint(http.MethodGet, "/nodes/{"+pathNode+"}/xds", access.ConfigDump, "Dump the configuration of a node", mediaJSON, a.ofNode(a.showDump))
		clusters := endpoint(http.MethodGet, "/nodes/{"+pathNode+"}/clusters", access.Clusters, "Show the endpoints that a node knows", mediaText, a.ofNode(a.showClusters))
		stats := endpoint(http.MethodGet, "/nodes/{"+pathNode+"}/stats", access.Stats, "Show the figures of a node", mediaText, a.ofNode(a.showStats))
		compared := endpoint(http.MethodGet, "/nodes/{"+pathNode+"}/config", access.ConfigDump, "Show what a node should have, was sent and has acknowledged", mediaJSON, a.ofNode(a.showCompared))
		list = append(list,
			about("configuration", does(compared, shows(schemaCompared, paramInclude), http.StatusNotFound)).Closed(),
			about("configuration dumps", does(dump, shows(schemaDump, paramSource), http.StatusNotFound)).Closed(),
			about("clusters", does(clusters, shows(schemaPage, paramJSON), http.StatusNotFound)).Closed(),
			about("stats", does(stats, shows(schemaPage, paramJSON, paramUsed), http.StatusNotFound)).Closed())
	}
	return list
}

// nodeList is a page of nodes.
type nodeList struct {
	listing
	// Mark is a value for the parameter since.
	Mark string `json:"mark"`
}

func (a *API) listNodes(w http.ResponseWriter, r *http.Request) {
	query, err := httpkit.Query(r)
	if err != nil {
		fail(w, r, opDecode, fault.Wrap(fault.Invalid, err, "the query is malformed"))
		return
	}
	asked, err := nodes.Ask(query)
	if err != nil {
		fail(w, r, opList, err)
		return
	}
	if asked.Size, err = pageSize(query.Get("size")); err != nil {
		fail(w, r, opSize, err)
		return
	}
	if asked.Offset, err = pageOffset(query.Get("offset")); err != nil {
		fail(w, r, opOffset, err)
		return
	}
	if asked.Wait > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), asked.Wait)
		defer cancel()
		a.Nodes.Await(ctx, asked.Since)
	}
	page := a.Nodes.List(asked.Query)
	doc := nodeList{listing: listing{Total: page.Total, Items: make([]any, 0, len(page.Nodes))}, Mark: page.Mark}
	for i := range page.Nodes {
		doc.Items = append(doc.Items, page.Nodes[i])
	}
	if page.More {
		next := nextPage(r, nodes.Follows(query), strconv.Itoa(asked.Offset+len(page.Nodes)))
		doc.Next = &next
	}
	reply(w, r, http.StatusOK, doc)
}

func (a *API) readNode(w http.ResponseWriter, r *http.Request) {
	doc, err := a.Nodes.Get(r.PathValue(pathNode))
	if err != nil {
		fail(w, r, opNode, err)
		return
	}
	reply(w, r, http.StatusOK, doc)
}

func (a *API) removeNode(w http.ResponseWriter, r *http.Request) {
	node := r.PathValue(pathNode)
	former, err := nodes.Former(r.URL.Query())
	switch {
	case err != nil:
	case former: // its former processes have no document of their own
		err = a.Nodes.RemoveFormer(node)
	default:
		err = a.Nodes.Remove(r.Context(), node, a.Writes.check)
	}
	if err != nil {
		fail(w, r, opNodeRemove, err)
		return
	}
	empty(w, http.StatusOK)
}

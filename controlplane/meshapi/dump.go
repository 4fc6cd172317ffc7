package meshapi

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

const pathOperation = "operation"

// dumps returns the endpoints for the configuration that a dataplane holds. They have
// rights of their own, which only administrators have unless settings say otherwise: a dump
// reveals a whole mesh.
func (a *API) dumps() []httpkit.Endpoint {
	if a.Dumps == nil || !slices.Contains(a.Kinds, mesh.Dataplanes) {
		return nil
	}
	c := collection{a, mesh.Dataplanes}
	item := prefixMesh + c.kind.Path + "/{" + pathName + "}/"
	return []httpkit.Endpoint{
		about("configuration dumps",
			does(endpoint(http.MethodGet, item+"xds", access.ConfigDump, "Dump the configuration of a dataplane", mediaJSON, named(c.asked(a.showDump))),
				shows(schemaDump, paramSource), http.StatusNotFound)).About(c.kind.Name),
		about("clusters",
			does(endpoint(http.MethodGet, item+"clusters", access.Clusters, "Show the endpoints that a dataplane knows", mediaText, named(c.asked(a.showClusters))),
				shows(schemaPage, paramJSON), http.StatusNotFound)).About(c.kind.Name),
		about("stats",
			does(endpoint(http.MethodGet, item+"stats", access.Stats, "Show the figures of a dataplane", mediaText, named(c.asked(a.showStats))),
				shows(schemaPage, paramJSON, paramUsed), http.StatusNotFound)).About(c.kind.Name),
		about("configuration",
			does(endpoint(http.MethodGet, item+"_config", access.ConfigDump, "Show the configuration that a dataplane has, or should have", mediaJSON, named(c.asked(a.showConfig))),
				shows(schemaConfig, paramShadow, paramInclude), http.StatusNotFound)).About(c.kind.Name),
		does(endpoint(http.MethodGet, item+"{"+pathOperation+"}", access.Known, "Refused: no such operation", mediaJSON, noOperation),
			httpkit.Contract{}, http.StatusNotFound),
	}
}

// zoneDumps returns the endpoints for what the proxies of the zone hold.
func (a *API) zoneDumps() (list []httpkit.Endpoint) {
	for _, t := range mesh.ZoneProxies {
		if a.Dumps != nil && slices.Contains(a.Kinds, mesh.ZoneKind(t)) {
			list = append(list, a.zoneDumpsOf(t)...)
		}
	}
	return list
}

func (a *API) zoneDumpsOf(proxyType string) (list []httpkit.Endpoint) {
	c := collection{a, mesh.ZoneKind(proxyType)}
	item := prefixAll + strings.ReplaceAll(c.kind.Path, "-", "") + "/{" + pathName + "}/"
	for _, d := range []struct {
		path, subject, summary string
		needs                  access.Right
		media                  string
		show                   func(w http.ResponseWriter, r *http.Request, node string)
		answered               httpkit.Contract
	}{
		{"xds", "configuration dumps", "Dump the configuration of an " + proxyType, access.ConfigDump, mediaJSON, a.showDump, shows(schemaDump, paramSource)},
		{"clusters", "clusters", "Show the endpoints that an " + proxyType + " knows", access.Clusters, mediaText, a.showClusters, shows(schemaPage, paramJSON)},
		{"stats", "stats", "Show the figures of an " + proxyType, access.Stats, mediaText, a.showStats, shows(schemaPage, paramJSON, paramUsed)},
	} {
		e := endpoint(http.MethodGet, item+d.path, d.needs, d.summary, d.media, named(c.askedOfZone(d.show)))
		list = append(list, about(d.subject, does(e, d.answered, http.StatusNotFound)).About(c.kind.Name))
	}
	return list
}

// askedOfZone has something shown of the node of a proxy of the zone. That of another zone is nowhere near.
func (c collection) askedOfZone(show func(w http.ResponseWriter, r *http.Request, node string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		res, err := c.read(r)
		if err != nil {
			fail(w, r, opFindIngress, err)
			return
		}
		if own := cmp.Or(c.api.Zone, mesh.DefaultZone); !res.Spec.(mesh.Zonal).In(own, own) {
			fail(w, r, opOtherZone, fault.New(fault.Invalid, "%s", textInvalid))
			return
		}
		show(w, r, mesh.ZoneNodeID(mesh.ZoneProxyOf(res.Kind.Name), res.Name))
	}
}

// noOperation answers for operations that do not exist, whether or not the dataplane exists.
func noOperation(w http.ResponseWriter, r *http.Request) {
	fail(w, r, opDump, fault.New(fault.NotFound, "no such operation"))
}

// asked has something shown of the node of a dataplane.
func (c collection) asked(show func(w http.ResponseWriter, r *http.Request, node string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		res, err := c.read(r)
		if err != nil {
			fail(w, r, opDumpTarget, err) // an unknown mesh gets the same answer as an unknown dataplane
			return
		}
		show(w, r, mesh.NodeID(res.Scope, res.Name))
	}
}

// showClusters answers with the endpoints that the Envoy of a node knows.
func (a *API) showClusters(w http.ResponseWriter, r *http.Request, node string) {
	a.showPage(w, r, node, func(_ url.Values, json bool) string {
		if json {
			return "/clusters?format=json"
		}
		return "/clusters"
	})
}

// showStats answers with the figures of the Envoy of a node.
func (a *API) showStats(w http.ResponseWriter, r *http.Request, node string) {
	a.showPage(w, r, node, func(query url.Values, json bool) string {
		all := query.Get("usedonly") == "false"
		switch {
		case all && json:
			return "/stats?format=json"
		case all:
			return "/stats"
		case json:
			return "/stats?usedonly&format=json"
		}
		return "/stats?usedonly"
	})
}

// showPage answers with what the Envoy of a node has at the path that a query chooses.
func (a *API) showPage(w http.ResponseWriter, r *http.Request, node string, path func(query url.Values, json bool) string) {
	query, err := httpkit.Query(r)
	if err != nil {
		fail(w, r, opDecode, fault.Wrap(fault.Invalid, err, "the query is malformed"))
		return
	}
	json, media := false, "text/plain; charset=utf-8"
	switch query.Get("format") {
	case "", "text":
	case "json":
		json, media = true, mediaJSON
	default:
		fail(w, r, opDecode, fault.Violated([]fault.Violation{{Path: "format", Message: "must be text or json"}}))
		return
	}
	if err := a.Dumps.Ask(r.Context(), node, path(query, json), func(page []byte) { write(w, http.StatusOK, media, page) }); err != nil {
		fail(w, r, opDump, err)
	}
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

// ofNode has something shown of a node of any kind. Like all dumps, it is for administrators.
func (a *API) ofNode(show func(w http.ResponseWriter, r *http.Request, node string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue(pathNode)
		if _, err := a.Nodes.Get(name); err != nil {
			fail(w, r, opNode, err)
			return
		}
		show(w, r, name)
	}
}

package meshapi

import (
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Product is how the control plane introduces itself unless it is told otherwise.
const Product = "meshgate"

// pathRevision is the name of a revision in a path.
const pathRevision = "revision"

// information returns the endpoints that describe the control plane.
func (a *API) information() []httpkit.Endpoint {
	get := func(auth access.Right, pattern, summary, schema string, document any) httpkit.Endpoint {
		return does(endpoint(http.MethodGet, pattern, auth, summary, mediaJSON, func(w http.ResponseWriter, r *http.Request) {
			reply(w, r, http.StatusOK, document)
		}), shows(schema))
	}
	list := []httpkit.Endpoint{
		get(access.Open, "/", "What this is", schemaIndex, a.index()),
		get(access.Known, "/policies", "List kinds of policies", schemaPolicies, a.policies()),
		get(access.Known, "/_resources", "List kinds of resources", schemaDocument, a.resources()),
		get(access.Known, "/versions", "List versions of dataplanes and their proxies", schemaVersions, a.versions()),
		does(endpoint(http.MethodGet, "/who-am-i", access.Known, "Who the caller is", mediaJSON, whoAmI), shows(schemaUser)),
		does(endpoint(http.MethodGet, "/openapi.json", access.Known, "This API as an OpenAPI document", mediaJSON, a.openAPI()), shows(schemaDocument)),
	}
	if a.Settings != nil {
		list = append(list, does(endpoint(http.MethodGet, "/config", access.Metadata, "The configuration of the control plane", mediaJSON, a.showSettings), shows(schemaDocument)))
	}
	if a.Revisions != nil {
		list = append(list, does(httpkit.Endpoint{
			Method: http.MethodGet, Pattern: "/revisions/{" + pathRevision + "}", Auth: httpkit.Administrator,
			Subject: "revisions", Summary: "How far proxies are with a revision", Handler: a.Revisions,
		}, shows(schemaDocument, httpkit.Parameter{Name: "wait", Type: "string", Summary: "How long to wait for proxies, such as 10s; at most 30s"}), http.StatusNotFound).Closed())
	}
	if a.Conditions != nil {
		list = append(list, does(httpkit.Endpoint{
			Method: http.MethodGet, Pattern: "/conditions", Auth: access.Metadata,
			Subject: "conditions", Summary: "What is the matter with the control plane", Handler: a.Conditions,
		}, shows(schemaConditions, paramSince, paramWait)).Closed())
	}
	if a.Recorded != nil {
		list = append(list, a.changesEndpoint())
	}
	return list
}

// index is the answer of GET /. Older clients read the product from tagline. There is no console.
func (a *API) index() map[string]string {
	product := a.product()
	return map[string]string{
		"clusterId": a.About.ClusterID, "gui": "", "hostname": a.About.Hostname, "instanceId": a.About.InstanceID,
		"product": product, "tagline": product, "version": a.Version,
	}
}

// product returns the name of the product.
func (a *API) product() string { return cmp.Or(a.About.Product, Product) }

// policy is one entry of GET /policies.
type policy struct {
	Name        string `json:"name"`
	ReadOnly    bool   `json:"readOnly"`
	Path        string `json:"path"`
	DisplayName string `json:"displayName"`
	Singular    string `json:"singularDisplayName"`
	Plural      string `json:"pluralDisplayName"`
	// Experimental is always false, because everything that is offered is supported.
	Experimental bool `json:"isExperimental"`
	TargetRef    bool `json:"isTargetRefBased"`
	Inbound      bool `json:"isInbound"`
	Outbound     bool `json:"isOutbound"`
}

// wrapped reports whether documents of a kind have their spec below the key spec. This holds
// for policies that choose proxies by a reference instead of by selectors, and for no others.
func wrapped(k *model.Kind) bool {
	_, ok := reflect.TypeOf(k.New()).Elem().FieldByName("Spec")
	return ok
}

// policies is the answer of GET /policies, by name.
func (a *API) policies() any {
	list := []policy{}
	for _, k := range a.Kinds {
		d := k.Document
		if d == nil || !d.Policy && !d.Listed {
			continue
		}
		list = append(list, policy{
			Name: d.Type, ReadOnly: a.Writes.closed(k) != "", Path: k.Path, DisplayName: d.Plural, Singular: d.Singular, Plural: d.Plural,
			TargetRef: wrapped(k), Inbound: d.Inbound, Outbound: d.Outbound,
		})
	}
	slices.SortFunc(list, func(a, b policy) int { return strings.Compare(a.Name, b.Name) })
	return map[string]any{"policies": list}
}

// listedKind is one entry of GET /_resources.
type listedKind struct {
	// Federated says that the resources of a zone move along when it joins others.
	Federated bool        `json:"includeInFederation"`
	Name      string      `json:"name"`
	Path      string      `json:"path"`
	Plural    string      `json:"pluralDisplayName"`
	Policy    *policyRefs `json:"policy,omitempty"`
	ReadOnly  bool        `json:"readOnly"`
	Scope     string      `json:"scope"`
	Singular  string      `json:"singularDisplayName"`
}

// policyRefs says how a policy names what it is for.
type policyRefs struct {
	From      bool `json:"hasFromTargetRef"`
	To        bool `json:"hasToTargetRef"`
	TargetRef bool `json:"isTargetRef"`
}

// resources is the answer of GET /_resources, by name.
func (a *API) resources() any {
	list := []listedKind{}
	for _, k := range a.Kinds {
		d := k.Document
		if d == nil {
			continue
		}
		scope := "Global"
		if k.Scoping == model.Mesh {
			scope = "Mesh"
		}
		r := listedKind{
			Federated: d.Written != model.ByZones && k.Name != mesh.Zones.Name, Name: d.Type, Path: k.Path, Plural: d.Plural,
			ReadOnly: a.Writes.closed(k) != "", Scope: scope, Singular: d.Singular,
		}
		if d.Policy {
			r.Policy = &policyRefs{From: wrapped(k) && d.Inbound, To: wrapped(k) && d.Outbound, TargetRef: wrapped(k)}
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b listedKind) int { return strings.Compare(a.Name, b.Name) })
	return map[string]any{"resources": list}
}

// versions is the answer of GET /versions.
func (a *API) versions() any {
	type proxy struct {
		Proxy string `json:"proxy"`
	}
	out := map[string]proxy{}
	for v, p := range a.ProxyVersions {
		out[v] = proxy{p}
	}
	return map[string]any{"meshDp": out}
}

// showSettings answers with the configuration. As clients know it, this document alone is on
// one line.
func (a *API) showSettings(w http.ResponseWriter, r *http.Request) {
	doc, err := json.Marshal(a.Settings())
	if err != nil {
		fail(w, r, operation{}, err)
		return
	}
	write(w, http.StatusOK, mediaJSON, doc)
}

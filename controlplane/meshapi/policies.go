package meshapi

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Policies tells which policies are chosen for which proxies; [inspect.Policies] implements
// it. Its methods call show with a document, and return its error. NotFound is about the
// dataplane; [turns.ErrFull] means that there are too many requests.
type Policies interface {
	// Of shows the policies that are chosen for the places of a dataplane and, with explain,
	// what is in force.
	Of(ctx context.Context, mesh, dataplane string, explain bool, show func(doc any) error) error
	// Rules shows the rules for a dataplane that result from policies with a target.
	Rules(ctx context.Context, mesh, dataplane string, show func(doc any) error) error
	// RulesOf shows the same rules by the types of their policies.
	RulesOf(ctx context.Context, mesh, dataplane string, show func(doc any) error) error
	// RulesOfGateway shows the rules for the proxies of a MeshGateway by the types of their policies.
	RulesOfGateway(ctx context.Context, mesh, gateway string, show func(doc any) error) error
	// Chosen shows the dataplanes for which a policy was chosen.
	Chosen(ctx context.Context, kind *model.Kind, mesh, name string, show func(doc any) error) error
	// Gateways shows the builtin gateways that a MeshGateway or a MeshGatewayRoute is for.
	Gateways(ctx context.Context, kind *model.Kind, mesh, name string, show func(doc any) error) error
	// Warnings shows what is valid in a mesh but most likely a mistake.
	Warnings(ctx context.Context, mesh string, show func(doc any) error) error
	// Nowhere returns the selectors of a new policy that select nothing.
	Nowhere(ctx context.Context, kind *model.Kind, mesh string, spec any) []fault.Violation
}

// selections returns the endpoints that tell which policies are chosen for a proxy, and for
// which proxies a policy is chosen. They need the permission to read policies and dataplanes.
func (a *API) selections() []httpkit.Endpoint {
	if a.Policies == nil || !slices.Contains(a.Kinds, mesh.Dataplanes) {
		return nil
	}
	c := collection{a, mesh.Dataplanes}
	get := func(k *model.Kind, suffix, summary string, h http.HandlerFunc, c httpkit.Contract) httpkit.Endpoint {
		e := endpoint(http.MethodGet, prefixMesh+k.Path+"/{"+pathName+"}/"+suffix, access.Read, summary, mediaJSON, named(h)).About(k.Name)
		return does(e, c, http.StatusNotFound)
	}
	explain := httpkit.Parameter{Name: queryExplain, Type: "boolean", Summary: "Also show what is in force, with defaults"}
	list := []httpkit.Endpoint{
		get(c.kind, "policies", "List which policies are chosen for a dataplane", c.policies, shows(schemaMatched, explain)),
		get(c.kind, "rules", "List what rules come to on a dataplane", c.rules, shows(schemaRules)),
		get(c.kind, "_rules", "List what rules come to on a dataplane, by the types of their policies", c.rulesByType, shows(schemaTypeRules)),
	}
	warnings := endpoint(http.MethodGet, prefixMesh+"warnings", access.Read, "List policies of a mesh that select nobody, and inbounds that refuse everybody because no policy admits anybody", mediaJSON, a.warnings)
	list = append(list, does(warnings, shows(schemaWarned), http.StatusNotFound))
	for _, k := range a.Kinds {
		if d := k.Document; d != nil && d.Policy && k.Scoping == model.Mesh {
			list = append(list, get(k, c.kind.Path, "List the dataplanes for which a "+d.Singular+" is chosen", collection{a, k}.chosen, shows(schemaChosen)))
		}
	}
	if k := mesh.MeshGateways; slices.Contains(a.Kinds, k) {
		list = append(list, get(k, "_rules", "List what rules come to on the proxies of a Mesh Gateway, by the types of their policies", collection{a, k}.rulesOfGateway, shows(schemaTypeRules)))
	}
	for _, k := range []*model.Kind{mesh.MeshGateways, mesh.MeshGatewayRoutes} {
		if slices.Contains(a.Kinds, k) {
			list = append(list, get(k, c.kind.Path, "List the gateways that a "+k.Document.Singular+" is for", collection{a, k}.gateways, shows(schemaGateways)))
		}
	}
	return list
}

const queryExplain = "explain"

func (c collection) policies(w http.ResponseWriter, r *http.Request) {
	query, err := httpkit.Query(r)
	if err != nil {
		fail(w, r, opDecode, fault.Wrap(fault.Invalid, err, "the query is malformed"))
		return
	}
	explain := false
	switch query.Get(queryExplain) {
	case "", "false":
	case "true":
		explain = true
	default:
		fail(w, r, opGet, fault.Violated([]fault.Violation{{Path: queryExplain, Message: "must be true or false"}}))
		return
	}
	c.inspect(w, r, ofPolicies, func(ctx context.Context, mesh, name string, show func(any) error) error {
		return c.api.Policies.Of(ctx, mesh, name, explain, show)
	})
}

func (c collection) rules(w http.ResponseWriter, r *http.Request) {
	c.inspect(w, r, ofPolicies, c.api.Policies.Rules)
}

func (c collection) rulesByType(w http.ResponseWriter, r *http.Request) {
	c.inspect(w, r, inspection{opMesh, opGet, nil}, c.api.Policies.RulesOf)
}

func (c collection) rulesOfGateway(w http.ResponseWriter, r *http.Request) {
	c.inspect(w, r, inspection{opMesh, opGet, nil}, c.api.Policies.RulesOfGateway)
}

func (c collection) chosen(w http.ResponseWriter, r *http.Request) {
	c.inspect(w, r, ofDataplanes, func(ctx context.Context, mesh, name string, show func(any) error) error {
		return c.api.Policies.Chosen(ctx, c.kind, mesh, name, show)
	})
}

func (c collection) gateways(w http.ResponseWriter, r *http.Request) {
	find := opFindGateway
	if c.kind == mesh.MeshGatewayRoutes {
		find = opFindRoute
	}
	c.inspect(w, r, inspection{find, find, nil}, func(ctx context.Context, mesh, name string, show func(any) error) error {
		return c.api.Policies.Gateways(ctx, c.kind, mesh, name, show)
	})
}

// inspection says how an answer fails: in the mesh, or about the resource. absent is the answer where
// the mesh has no such resource; it is nil if that is a failure.
type inspection struct {
	mesh, resource operation
	absent         any
}

var (
	ofPolicies = inspection{opContext, opMatched, nil}
	// A policy that does not exist is chosen nowhere.
	ofDataplanes = inspection{opChosen, opChosen, struct {
		Total int   `json:"total"`
		Items []any `json:"items"`
	}{Items: []any{}}}
)

// inspect answers about a resource.
func (c collection) inspect(w http.ResponseWriter, r *http.Request, a inspection, ask func(ctx context.Context, mesh, name string, show func(any) error) error) {
	res, err := c.read(r)
	if err != nil {
		_, unmeshed := errors.AsType[*failure](err)
		switch {
		case unmeshed:
			fail(w, r, a.mesh, err)
		case a.absent != nil && fault.Is(err, fault.NotFound):
			reply(w, r, http.StatusOK, a.absent)
		default:
			fail(w, r, a.resource, err)
		}
		return
	}
	present(w, r, a.resource, func(show func(any) error) error { return ask(r.Context(), res.Scope, res.Name, show) })
}

// present answers with the document that is shown during a turn. It is encoded then and sent
// afterwards, because the client decides how long the sending takes.
func present(w http.ResponseWriter, r *http.Request, op operation, about func(show func(doc any) error) error) {
	var body []byte
	err := about(func(doc any) (err error) {
		body, err = encode(doc)
		return err
	})
	if err != nil {
		fail(w, r, op, err)
		return
	}
	write(w, http.StatusOK, mediaJSON, body)
}

// warnings answers about an existing mesh, as inspect does about a resource.
func (a *API) warnings(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue(pathMesh)
	err := a.Store.View(r.Context(), func(reader store.Reader) error { return meshExists(reader, name) })
	if err != nil {
		answer(w, r, opMesh, err)
		return
	}
	present(w, r, opGet, func(show func(any) error) error { return a.Policies.Warnings(r.Context(), name, show) })
}

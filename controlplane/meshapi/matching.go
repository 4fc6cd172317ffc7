package meshapi

import (
	"maps"
	"net/http"
	"slices"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// opPolicy fails where clients expect the policy itself to be missing.
var opPolicy = operation{title: "Could not retrieve policy"}

// reference names a resource in a list of what something is about.
type reference struct {
	Labels map[string]string `json:"labels"`
	Mesh   string            `json:"mesh"`
	Name   string            `json:"name"`
	Type   string            `json:"type"`
}

// matches returns the endpoints that list the dataplanes that a policy is about: any of its
// sources, destinations, selectors or targets matches one of their tag sets. Unlike at
// .../dataplanes, another policy may be chosen there.
func (a *API) matches() (list []httpkit.Endpoint) {
	if !slices.Contains(a.Kinds, mesh.Dataplanes) {
		return nil
	}
	proxies := collection{a, mesh.Dataplanes}
	for _, k := range a.Kinds {
		if d := k.Document; d == nil || !d.Policy && !d.Listed || k.Scoping != model.Mesh || !selects(k) {
			continue
		}
		pattern := prefixMesh + k.Path + "/{" + pathName + "}/_resources/" + proxies.kind.Path
		e := endpoint(http.MethodGet, pattern, access.Read, "List the dataplanes that a "+k.Document.Singular+" selects", mediaJSON, named(collection{a, k}.matching(pattern)))
		list = append(list, does(e.About(k.Name), shows(schemaReferences, proxies.parameters()...), http.StatusNotFound))
	}
	return list
}

// selects reports whether the resources of a kind say which dataplanes they are about.
func selects(k *model.Kind) bool {
	_, ok := k.New().(model.Selecting)
	return ok
}

// matching answers with the dataplanes that match a policy. They are listed as all dataplanes are,
// with the same parameters.
func (c collection) matching(pattern string) http.HandlerFunc {
	proxies := collection{c.api, mesh.Dataplanes}
	return func(w http.ResponseWriter, r *http.Request) {
		policy, err := c.read(r)
		if err != nil {
			answer(w, r, opPolicy, err)
			return
		}
		selected, err := c.selected(r, selectorsOf(policy.Spec.(model.Selecting)))
		if err != nil {
			answer(w, r, opList, err)
			return
		}
		proxies.listOf(pattern, demand{facts: selected}, func(_ *http.Request, res *model.Resource) (any, error) {
			ref := reference{model.LabelsOf(res.Spec), res.Scope, res.Name, res.Kind.Document.Type}
			if ref.Labels == nil {
				ref.Labels = map[string]string{}
			}
			return ref, nil
		})(w, r)
	}
}

// selected returns a function for the dataplanes of which a tag set matches one of some selectors. A
// selector of listeners is for builtin gateways that have such a listener by the MeshGateway that it
// names.
func (c collection) selected(r *http.Request, selectors []map[string]string) (func(facts) bool, error) {
	var gateways []func(facts) bool
	for _, s := range selectors {
		if name := s[mesh.ListenerOf]; name != "" {
			spec, err := c.gateway(r, name)
			if err != nil {
				return nil, err
			}
			gateways = append(gateways, func(f facts) bool { return f.gateway == mesh.GatewayBuiltin && listens(spec, s, f.tags) })
		}
	}
	of := indexed(selectors)
	return func(f facts) bool {
		return slices.ContainsFunc(f.tags, of.match) || slices.ContainsFunc(gateways, func(is func(facts) bool) bool { return is(f) })
	}, nil
}

// gateway returns a MeshGateway of the mesh of a request. One that does not exist has no listeners.
func (c collection) gateway(r *http.Request, name string) (spec *mesh.MeshGateway, err error) {
	spec = &mesh.MeshGateway{}
	err = c.api.Store.View(r.Context(), func(reader store.Reader) error {
		res, err := reader.Get(mesh.MeshGateways, r.PathValue(pathMesh), name)
		if err == nil {
			spec = res.Spec.(*mesh.MeshGateway)
		}
		return err
	})
	if fault.Is(err, fault.NotFound) {
		err = nil
	}
	return spec, err
}

// listens reports whether a gateway with one of some tag sets has a listener with the tags of a
// target by a MeshGateway.
func listens(gateway *mesh.MeshGateway, target map[string]string, sets []mesh.Tags) bool {
	want, listeners := maps.Clone(target), gateway.Listeners()
	delete(want, mesh.ListenerOf)
	return slices.ContainsFunc(sets, func(tags mesh.Tags) bool {
		if !slices.ContainsFunc(gateway.Selectors, func(s mesh.Selector) bool { return mesh.Matches(s.Match, tags) }) {
			return false
		}
		for i := range listeners {
			if mesh.Matches(want, gateway.ListenerTags(tags, &listeners[i])) {
				return true
			}
		}
		return false
	})
}

// selectorsOf lists the tag sets of a policy. One that says for which proxies it is, is about no
// others; one without any is about all.
func selectorsOf(s model.Selecting) []map[string]string {
	if t, ok := s.(model.Targeting); ok {
		return t.SelectedTargets()
	}
	return slices.Concat(s.SelectedSources(), s.SelectedDestinations())
}

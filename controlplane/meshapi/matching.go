package meshapi

import (
	"net/http"
	"slices"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
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
		selectors := selectorsOf(policy.Spec.(model.Selecting))
		selected := func(f facts) bool {
			return slices.ContainsFunc(f.tags, func(tags mesh.Tags) bool {
				return slices.ContainsFunc(selectors, func(s map[string]string) bool { return mesh.Matches(s, tags) })
			})
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

// selectorsOf lists the tag sets of a policy. One that says for which proxies it is, is about no
// others; one without any is about all.
func selectorsOf(s model.Selecting) []map[string]string {
	if t, ok := s.(model.Targeting); ok {
		return t.SelectedTargets()
	}
	return slices.Concat(s.SelectedSources(), s.SelectedDestinations())
}

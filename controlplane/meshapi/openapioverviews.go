package meshapi

import (
	"slices"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/openapi"
)

// describeOverviews adds the schemas of overviews and of insights alone.
func (a *API) describeOverviews(out schemas) {
	for _, o := range overviewed {
		if a.Insights == nil || !slices.Contains(a.Kinds, o.of) {
			continue
		}
		spec := openapi.From(o.of.Document.Schema)
		delete(spec.Properties, "labels") // labels are beside the spec
		spec.Required = slices.DeleteFunc(spec.Required, func(name string) bool { return name == "labels" })
		whole, bare := openapi.For[heading](), openapi.For[heading]()
		whole.Properties[o.part], whole.Properties[o.insight] = spec, &openapi.Schema{}
		whole.Required = append(whole.Required, o.part)
		if o.of == mesh.Dataplanes {
			whole.Properties["errors"] = openapi.List(text()).Says("Why the proxy does not have the configuration that it should have; only where there is something")
		}
		if o.of.Scoping == model.Mesh || o.mesh != "" {
			whole.Required = append(whole.Required, "mesh")
		}
		bare.AdditionalProperties = nil
		for name, s := range map[string]*openapi.Schema{o.whole(): whole, o.bare(): bare} {
			out[name], out[name+suffixList] = s, pageOf(openapi.To(name), schemas{"unreadable": openapi.Count()})
		}
	}
}

// describeInsights adds the schemas of counts.
func (a *API) describeInsights(out schemas) {
	if a.Census == nil {
		return
	}
	out[schemaMeshInsight], out[schemaServiceInsight] = openapi.For[census.MeshInsight](), openapi.For[census.ServiceInsight]()
	for _, name := range []string{schemaMeshInsight, schemaServiceInsight} {
		out[name+suffixList] = pageOf(openapi.To(name), schemas{"unreadable": openapi.Count()})
	}
	out[schemaGlobalInsights], out[schemaGlobalInsight] = openapi.For[census.GlobalInsights](), openapi.For[census.All]()
	out[schemaZoneStatus] = openapi.List(openapi.For[census.ZoneStatus]())
}

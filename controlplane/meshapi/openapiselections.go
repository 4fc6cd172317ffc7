package meshapi

import (
	"github.com/meshgate/meshgate/controlplane/openapi"
	"github.com/meshgate/meshgate/inspect/explain"
)

// describeSelections adds the schemas for the answers of [Policies].
func describeSelections(out schemas) {
	texts := func() *openapi.Schema {
		return &openapi.Schema{Type: openapi.Types{openapi.Object}, AdditionalProperties: text()}
	}
	list := func(item *openapi.Schema) schemas {
		return schemas{"total": openapi.Count(), "items": openapi.List(item)}
	}
	errors := func() *openapi.Schema {
		return openapi.List(text()).Says("What is not as configured: policies without effect, and what the proxy refuses; only where there is something")
	}
	place := func() schemas { return schemas{"type": text(), "name": text(), "service": text(), "errors": errors()} }
	policy := openapi.Closed(schemas{
		"type": text(), "mesh": text(), "name": text(), "creationTime": openapi.Moment(), "modificationTime": openapi.Moment(), "labels": texts(),
	}, "type", "mesh", "name", "creationTime", "modificationTime")
	matched := place()
	matched["matchedPolicies"] = &openapi.Schema{Type: openapi.Types{openapi.Object}, AdditionalProperties: openapi.List(policy)}
	matched["effective"] = openapi.Of(openapi.Object)
	places := list(openapi.Closed(matched, "type", "matchedPolicies"))
	places["kind"] = text()
	places["warnings"] = openapi.List(text()).Says("Inbounds that refuse for want of a policy, and services that the dataplane leaves out; only where there are some")
	places["errors"] = errors()
	origin := func() *openapi.Schema {
		return openapi.Closed(schemas{"mesh": text(), "name": text()}, "mesh", "name")
	}
	each := func() *openapi.Schema {
		return &openapi.Schema{Type: openapi.Types{openapi.Object}, AdditionalProperties: policy}
	}
	listeners := func(destination *openapi.Schema) *openapi.Schema {
		route := openapi.Closed(schemas{"route": text(), "destinations": openapi.List(destination)}, "route", "destinations")
		host := openapi.Closed(schemas{"hostName": text(), "routes": openapi.List(route)}, "hostName", "routes")
		return openapi.List(openapi.Closed(schemas{"port": openapi.Count(), "protocol": text(), "hosts": openapi.List(host)}, "port", "protocol", "hosts"))
	}
	gateway := openapi.Closed(schemas{
		"kind": openapi.OneOf("MeshGatewayDataplane"), "gateway": origin(), "policies": each(), "errors": errors(),
		"listeners": listeners(openapi.Closed(schemas{"tags": texts(), "policies": each(), "effective": openapi.Of(openapi.Object)}, "tags", "policies")),
	}, "kind", "gateway", "listeners", "policies")
	places["kind"] = openapi.OneOf("SidecarDataplane")
	out[schemaMatched] = &openapi.Schema{AnyOf: []*openapi.Schema{openapi.Closed(places, "kind", "total", "items"), gateway}}
	out[schemaGateways] = openapi.Closed(list(openapi.Closed(schemas{"dataplane": origin()}, "dataplane")), "total", "items")

	out[schemaReferences] = pageOf(openapi.For[reference](), schemas{"unreadable": openapi.Count()})

	warned := openapi.Closed(schemas{
		"type": text(), "mesh": text(), "name": text().Says("Left out where inbounds lack a policy of the type"), "warnings": openapi.List(text()),
		"refusing": openapi.List(text()).Says("Those of the warnings that name inbounds which refuse everybody"),
	}, "type", "mesh", "warnings")
	out[schemaWarned] = openapi.Closed(list(warned), "total", "items")

	rule := openapi.Closed(schemas{
		"type": text(), "name": text(), "service": text(), "policyType": text(), "subset": texts().OrNull(), "conf": {}, "origins": openapi.List(origin()),
		"errors": errors(),
	}, "type", "name", "service", "policyType", "subset", "conf", "origins")
	rules := list(rule)
	rules["errors"] = errors()
	out[schemaRules] = openapi.Closed(rules, "total", "items")

	named := func() *openapi.Schema {
		return openapi.Closed(schemas{"type": text(), "mesh": text(), "name": text()}, "type", "mesh", "name")
	}
	matcher := func() *openapi.Schema {
		return openapi.Closed(schemas{"key": text(), "value": text(), "not": openapi.Of(openapi.Boolean)}, "key", "value", "not")
	}
	conf := func() *openapi.Schema {
		return openapi.Closed(schemas{"matchers": openapi.List(matcher()), "conf": {}, "origin": openapi.List(named())}, "conf", "origin")
	}
	from := openapi.Closed(schemas{
		"inbound": openapi.Closed(schemas{"name": text(), "tags": texts()}, "name", "tags"), "rules": openapi.List(conf()),
	}, "inbound", "rules")
	byType := openapi.Closed(schemas{
		"type": text(), "proxyRule": conf(), "toRules": openapi.List(conf()), "fromRules": openapi.List(from),
	}, "type")
	out[schemaTypeRules] = openapi.Closed(schemas{
		"httpMatches": openapi.List(&openapi.Schema{}), "resource": named(), "rules": openapi.List(byType),
	}, "httpMatches", "resource", "rules")

	proxy := openapi.Closed(schemas{
		"kind": text(), "dataplane": origin(), "attachments": openapi.List(openapi.Closed(place(), "type")), "errors": errors(),
		"gateway": origin().Says("Of a builtin gateway"), "listeners": listeners(texts()).Says("Of a builtin gateway, unless the policy is for all of it"),
	}, "kind", "dataplane")
	chosen := list(proxy)
	chosen["warnings"] = openapi.List(text()).Says("Services that dataplanes leave out, where the policy would be chosen; only where there are some")
	out[schemaChosen] = openapi.Closed(chosen, "total", "items")
	out[schemaExplained] = openapi.For[explain.Explanation]()
}

package gateway

import (
	"github.com/invopop/jsonschema"

	"github.com/meshgate/meshgate/controlplane/model"
)

// rules are what the tags of specs mean by x-check, x-each-check and x-generated.
var rules = &model.Rules{
	Checks: map[string]func(any) string{
		"algorithm":         unsupported("latency", "proxies do not choose targets by the time they take; use least-connections"),
		"authority":         authorityText,
		"chain":             chainText,
		"credential-header": credentialHeaderText,
		"hash-input":        unsupported("uri_capture", "the path has been rewritten when a target is chosen"),
		"header":            headerText,
		"header-name":       headerNameText,
		"header-names":      headerNamesText,
		"header-value":      headerValueText,
		"headers":           headersText,
		"host":              hostText,
		"host-header":       hostHeaderText,
		"interval":          longText,
		"issuer":            issuerText,
		"key-names":         fewNames,
		"method":            methodText,
		"name":              nameText,
		"no-echo":           noEcho,
		"no-srv":            noServiceNames,
		"path":              servicePathText,
		"path-handling":     handlingText,
		"positive":          positiveText,
		"protocols":         protocolsText,
		"query-arg":         queryArgText,
		"realm":             realmText,
		"redirect":          redirectText,
		"route-host":        routeHostText,
		"route-path":        routePathText,
		"scope":             scopeText,
		"scopes":            scopesText,
		"server-name":       serverNameText,
		"service-protocol":  serviceProtocolText,
		"sni":               sniText,
		"tag":               tagText,
		"target":            targetText,
		"upstream-name":     upstreamNameText,
		"uuid":              uuidText,
		"whole":             wholeText,
	},
	Generators: map[string]func() (any, error){"secret": generated},
}

// pluginRules are those of plugin instances, whose configuration has rules itself.
var pluginRules = rules.With(model.Rules{
	Checks:   map[string]func(any) string{"plugin": pluginNameText},
	Variants: map[string]func(map[string]any) *model.Schema{"plugin": pluginConfig},
})

// MatchedHeaders are names of headers, each with the values of which a request must
// have one.
type MatchedHeaders map[string][]string

// JSONSchemaExtend bounds the values.
func (MatchedHeaders) JSONSchemaExtend(s *jsonschema.Schema) {
	least, longest := uint64(1), uint64(maxPattern+2)
	values := s.AdditionalProperties
	values.MinItems, values.Items.MaxLength = &least, &longest
	values.Extras = map[string]any{"x-each-check": "header-value"}
}

// ProbeHeaders are the headers of probes.
type ProbeHeaders map[string][]string

// JSONSchemaExtend bounds the values.
func (ProbeHeaders) JSONSchemaExtend(s *jsonschema.Schema) {
	longest := uint64(1024)
	values := s.AdditionalProperties
	values.Items.MaxLength = &longest
	values.Extras = map[string]any{"x-each-check": "header"}
}

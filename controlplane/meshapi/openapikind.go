package meshapi

import (
	"maps"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/openapi"
)

// describeKind adds the schemas of a kind's documents, for answers and for requests.
func describeKind(k *model.Kind, out schemas) {
	d := k.Document
	shown, given := openapi.Closed(schemas{}), openapi.Closed(schemas{})
	if spec := openapi.From(d.Schema); spec != nil {
		maps.Copy(shown.Properties, spec.Properties)
		shown.Required = append(shown.Required, spec.Required...)
		maps.Copy(given.Properties, loosened(openapi.From(d.Schema)).Properties)
	} else { // a kind without a described schema
		shown.AdditionalProperties, given.AdditionalProperties = nil, nil
	}
	heads := []string{"type", "name"}
	if k.Scoping == model.Mesh {
		heads = append(heads, "mesh")
	}
	for _, name := range heads {
		shown.Properties[name], given.Properties[name] = text(), text()
	}
	// A document that was read may be sent back. Values that differ from the path are
	// refused, and a mesh is ignored for kinds without one.
	given.Properties["mesh"] = text()
	for _, name := range []string{"creationTime", "modificationTime"} {
		shown.Properties[name], given.Properties[name] = openapi.Moment(), openapi.Moment().OrNull()
	}
	shown.Properties["type"], given.Properties["type"] = openapi.OneOf(d.Type), openapi.OneOf(append([]string{d.Type}, d.Aliases...)...)
	given.Required = heads
	shown.Required = append(shown.Required, append([]string{"creationTime", "modificationTime"}, heads...)...)
	out[d.Type], out[d.Type+suffixWrite] = shown, given
	out[d.Type+suffixRead] = anyOf(d.Type, schemaObject)
	out[d.Type+suffixList] = pageOf(openapi.To(d.Type), schemas{"unreadable": openapi.Count()})
}

// loosened turns the schema of an answer into that of a request: it allows everything that
// [model.ReadDocument] accepts. It changes s.
func loosened(s *openapi.Schema) *openapi.Schema {
	s.Required = nil
	for name, p := range s.Properties {
		s.Properties[name] = loosened(p).OrNull()
	}
	for _, part := range []*openapi.Schema{s.Items, s.AdditionalProperties} {
		if part != nil {
			loosened(part)
		}
	}
	if len(s.Type) != 1 {
		return s
	}
	switch whole := s.Format == "int64" || s.Format == "uint64"; {
	case s.Type[0] == openapi.Whole, s.Type[0] == openapi.Number:
		s.Type = openapi.Types{s.Type[0], openapi.Text}
	case whole:
		s.Type = openapi.Types{openapi.Text, openapi.Whole}
	case s.Enum != nil: // by name or number
		s.Type = openapi.Types{openapi.Text, openapi.Whole}
		for i := range s.Enum {
			s.Enum = append(s.Enum, i)
		}
	}
	return s
}

package gatewayapi

import (
	"net/http"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/openapi"
	"github.com/meshgate/meshgate/controlplane/openapi/entity"
)

// filled describes entities in documents of their own, which refer to nothing. What a plugin's
// configuration has depends on the plugin, which has a description of its own.
var filled = entity.Dialect{
	Reference: openapi.Of(openapi.Object),
	Variant:   func(*model.Field, entity.Form) *openapi.Schema { return openapi.Of(openapi.Object) },
}

// jsonSchemaEndpoint describes kinds, by the names of their entities, as JSON Schemas. The declarative
// tool reads defaults from these in its cloud mode, where it does not ask for /schemas. Without them it
// would take the defaults of another gateway, and change what is not in its file.
func (a *API) jsonSchemaEndpoint() httpkit.Endpoint {
	const name = "name"
	return answering(endpoint(http.MethodGet, "/v1/schemas/json/{"+name+"}", "Describe a kind as a JSON Schema", func(w http.ResponseWriter, r *http.Request) {
		for _, c := range a.Collections {
			if c.Kind.Name == r.PathValue(name) {
				reply(w, r, http.StatusOK, filled.Filled(c.Kind.Schema))
				return
			}
		}
		httpkit.WriteMessage(w, http.StatusNotFound, "No such kind of entity")
	}), schemaDocument, http.StatusNotFound)
}

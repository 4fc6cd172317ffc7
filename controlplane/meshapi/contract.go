package meshapi

import (
	"maps"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

// The names of the schemas in the OpenAPI document. The schema of a kind's document has the
// name of its type. Further schemas of the kind have a suffix.
const (
	suffixList  = "_list"
	suffixRead  = "_read"
	suffixWrite = "_write"

	schemaText       = "text" // plain text
	schemaError      = "error"
	schemaMessage    = "message"
	schemaFailure    = "failure" // an error of this API, or a message of a part behind it
	schemaStored     = "stored"
	schemaDryRun     = "dry_run"
	schemaWritten    = "written" // stored, or what would be
	schemaObject     = "object"
	schemaDocument   = "document"
	schemaIndex      = "index"
	schemaPolicies   = "policies"
	schemaVersions   = "versions"
	schemaUser       = "user"
	schemaConditions = "conditions"
	schemaChanges    = "change" + suffixList
	schemaNode       = "node"

	schemaMeshInsight    = "MeshInsight"
	schemaServiceInsight = "ServiceInsight"
	schemaGlobalInsights = "GlobalInsights"
	schemaGlobalInsight  = "global_insight"
	schemaZoneStatus     = "zone_status" + suffixList

	schemaNodes      = schemaNode + suffixList
	schemaDump       = "dump"
	schemaConfig     = "dataplane_config"
	schemaCompared   = "node_config"
	schemaPage       = "page" // plain text, or JSON where that was asked for
	schemaHTML       = "html"
	schemaMatched    = "matched_policies"
	schemaRules      = "rules"
	schemaTypeRules  = "rules_by_type"
	schemaChosen     = "chosen_dataplanes"
	schemaGateways   = "gateway_dataplanes"
	schemaReferences = "selected_dataplanes"
	schemaWarned     = "mesh_warnings"
	schemaExplained  = "explanation"
	schemaKeys       = "key" + suffixList
	schemaRotation   = "key_rotation"
	schemaRevocation = "token_revocation"
	schemaAdded      = "added"
	schemaToken      = "dataplane_token_request"
	schemaGateway    = "gateway_token_request"
	schemaForUser    = "user_token_request"
	schemaForZone    = "zone_token_request"
	schemaIngress    = "zone_ingress_token_request"
)

// everywhere lists the answers that every endpoint may give: the query or body cannot be
// read, the caller is unknown or not permitted, an unexpected failure, the request took too
// long.
var everywhere = map[int]string{
	http.StatusBadRequest: schemaFailure, http.StatusUnauthorized: schemaFailure, http.StatusForbidden: schemaFailure,
	http.StatusInternalServerError: schemaFailure, http.StatusServiceUnavailable: schemaFailure,
}

// does sets the contract of an endpoint: c, further failures, and the answers that all
// endpoints of its method may give.
func does(e httpkit.Endpoint, c httpkit.Contract, failures ...int) httpkit.Endpoint {
	answers := maps.Clone(everywhere)
	for _, status := range failures {
		answers[status] = schemaFailure
	}
	if e.Method != http.MethodGet {
		answers[http.StatusInsufficientStorage] = schemaFailure
	}
	if e.Method == http.MethodPut || e.Method == http.MethodPost {
		answers[http.StatusRequestEntityTooLarge] = schemaFailure
		answers[http.StatusUnsupportedMediaType] = schemaText
	}
	maps.Copy(answers, c.Answers)
	if ok := answers[http.StatusOK]; ok != schemaText && ok != schemaPage {
		answers[http.StatusNotAcceptable] = schemaText
	}
	c.Answers = answers
	e.Contract = c
	return e
}

// shows returns the contract of an endpoint that only shows something.
func shows(schema string, query ...httpkit.Parameter) httpkit.Contract {
	return httpkit.Contract{Query: query, Answers: map[int]string{http.StatusOK: schema}}
}

// The parameters of queries.
var (
	paramSize   = httpkit.Parameter{Name: "size", Type: "integer", Summary: "How many, 1 to 1000; 100 if not given or 0"}
	paramOffset = httpkit.Parameter{Name: "offset", Type: "integer", Summary: "How many to leave out before; see next"}
	paramForce  = httpkit.Parameter{Name: "force", Type: "boolean", Summary: "Also if it is a key that is needed"}
	paramSince  = httpkit.Parameter{Name: "since", Type: "string", Summary: "The mark of an earlier answer: with wait, the answer comes when it has changed"}
	paramWait   = httpkit.Parameter{Name: "wait", Type: "string", Summary: "How long to wait for a change, such as 10s; at most 30s"}
	paramSource = httpkit.Parameter{
		Name: "source", Type: "string",
		Summary: "proxy (if not given): what its Envoy says, or what it was sent if it cannot be asked; control-plane: what it was sent, and what became of it",
	}
	paramShadow = httpkit.Parameter{
		Name: queryShadow, Type: "boolean",
		Summary: "false (if not given): what the proxy has acknowledged; true: what is made of what is stored now",
	}
	paramInclude    = httpkit.Parameter{Name: nodes.ParamInclude, Type: "string", Summary: "diff: also the JSON patch from what is acknowledged"}
	paramJSON       = httpkit.Parameter{Name: "format", Type: "string", Summary: "text (if not given), or json"}
	paramUsed       = httpkit.Parameter{Name: "usedonly", Type: "string", Summary: "Only figures that were ever used (if not given); false: all"}
	paramValidation = httpkit.Parameter{
		Name: httpkit.ArgFieldValidation, Type: "string",
		Summary: "What becomes of members that mean nothing: strict (if not given) refuses them, warn drops them and says so, ignore drops them",
	}
	paramNamespace = httpkit.Parameter{Name: "namespace", Type: "string", Summary: "With format=k8s: the namespace in which the custom resource is to be"}
	paramFormat    = httpkit.Parameter{Name: "format", Type: "string", Summary: "universal (if not given), or k8s or kubernetes: as a custom resource"}
)

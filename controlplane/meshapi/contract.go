package meshapi

import (
	"maps"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// Names of the schemas of the OpenAPI document. Those of a kind are its type, for the
// document as it is shown, and the type with a suffix.
const (
	suffixList  = "_list"
	suffixRead  = "_read"
	suffixWrite = "_write"

	schemaText       = "text" // answered as plain text
	schemaError      = "error"
	schemaMessage    = "message"
	schemaFailure    = "failure" // an error of this API or a message of what it stands behind
	schemaStored     = "stored"
	schemaObject     = "object"
	schemaDocument   = "document"
	schemaIndex      = "index"
	schemaPolicies   = "policies"
	schemaVersions   = "versions"
	schemaUser       = "user"
	schemaConditions = "conditions"
	schemaChanges    = "change" + suffixList
	schemaOverview   = "dataplane_overview"
	schemaNode       = "node"
	schemaNodes      = schemaNode + suffixList
	schemaDump       = "dump"
	schemaMatched    = "matched_policies"
	schemaRules      = "rules"
	schemaChosen     = "chosen_dataplanes"
	schemaWarned     = "mesh_warnings"
	schemaKeys       = "key" + suffixList
	schemaRotation   = "key_rotation"
	schemaRevocation = "token_revocation"
	schemaAdded      = "added"
	schemaToken      = "dataplane_token_request"
	schemaGateway    = "gateway_token_request"
)

// everywhere are the answers that every endpoint may give: a query or body that cannot be
// read, callers that are not known or not permitted, an unexpected failure, a request
// that took too long.
var everywhere = map[int]string{
	http.StatusBadRequest: schemaFailure, http.StatusUnauthorized: schemaFailure, http.StatusForbidden: schemaFailure,
	http.StatusInternalServerError: schemaFailure, http.StatusServiceUnavailable: schemaFailure,
}

// does states what an endpoint takes and answers: c, failures, and what others of its
// method do.
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
	if answers[http.StatusOK] != schemaText {
		answers[http.StatusNotAcceptable] = schemaText
	}
	c.Answers = answers
	e.Contract = c
	return e
}

// shows is the contract of an endpoint that is asked nothing but to show something.
func shows(schema string, query ...httpkit.Parameter) httpkit.Contract {
	return httpkit.Contract{Query: query, Answers: map[int]string{http.StatusOK: schema}}
}

// Parameters of queries.
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
	paramValidation = httpkit.Parameter{
		Name: httpkit.ArgFieldValidation, Type: "string",
		Summary: "What becomes of members that mean nothing: strict (if not given) refuses them, warn drops them and says so, ignore drops them",
	}
	paramFormat = httpkit.Parameter{Name: "format", Type: "string", Summary: "universal (if not given), or k8s or kubernetes: as a custom resource"}
)

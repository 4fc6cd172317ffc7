package accesslog

import (
	"strings"

	"github.com/meshgate/meshgate/filter/contract"
)

// namespaceOf is where the filter records what became of a request: Envoy keeps what an
// authorization service records under the name of its own filter.
func namespaceOf(m contract.Mode) string {
	if m == contract.ModeExtAuthz {
		return contract.ExtAuthzFilter
	}
	return contract.MetadataNamespace
}

// operatorOf is the operator of Envoy that stands for a word.
func operatorOf(word string, e ending, m contract.Mode) string {
	op := words[word][e]
	if m != contract.ModeExtAuthz {
		return op
	}
	if own := authzWords[word]; own != "" && e == passed {
		return own
	}
	return strings.Replace(op, "%DYNAMIC_METADATA("+contract.MetadataNamespace+":", "%DYNAMIC_METADATA("+contract.ExtAuthzFilter+":", 1)
}

// These are expressions (CEL). Of a request that it was asked about, the authorization service
// always records something. If it recorded nothing on a route with a chain, it did not answer:
// it was away, or the client did not wait.
const (
	ofTheRoute = "xds.route_metadata.filter_metadata['" + contract.MetadataNamespace + "']"
	unanswered = ofTheRoute + "['" + contract.MetaDecision + "']=='" + string(contract.Allowed) + "'&&!('" + contract.ExtAuthzFilter + "' in metadata.filter_metadata)"
	failed     = "response.code_details=='ext_authz_error'"
)

// authzWords are the words of requests of which the service recorded no refusal.
var authzWords = map[string]string{
	"decision": "%CEL(" + unanswered + "?(" + failed + "?'" + string(contract.Refused) + "':'" + string(contract.Undecided) + "'):" + ofTheRoute + "['" + contract.MetaDecision + "'])%",
	"reason":   "%CEL(" + unanswered + "?(" + failed + "?" + quoted(contract.ReasonFilterFailed) + ":" + quoted(contract.ReasonUndecided) + "):" + ofTheRoute + "['" + contract.MetaReason + "'])%",
}

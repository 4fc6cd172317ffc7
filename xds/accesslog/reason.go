package accesslog

import (
	"fmt"
	"strings"

	"github.com/meshgate/meshgate/filter/contract"
)

// because is a reason and the expression (CEL) that holds where it is the one.
type because struct {
	holds  string
	reason contract.Reason
}

// ofDetails tells reasons by Envoy's words, the first that fits. They are of Envoy, but
// for what an error of TLS says, which stands behind what tells that it was one.
var ofDetails = []because{
	{"%s=='fault_filter_abort'", contract.ReasonFaultInjected},
	{"%s=='no_healthy_upstream'", contract.ReasonNoEndpoint},
	{"%s.endsWith('{overflow}')", contract.ReasonOverflow},
	{"%s=='route_not_found'", contract.ReasonNoRoute},
	{"%s=='cluster_not_found'", contract.ReasonMisconfigured},
	{"%s.matches('connection_(failure|timeout)')", contract.ReasonConnectFailed},
	{"%s.contains('timeout')", contract.ReasonTimeout},
	{"%s.startsWith('upstream_')", contract.ReasonReset},
}

// ofFlags tells the reasons of connections, by the numbers of Envoy's flags.
var ofFlags = []because{
	{"response.flags==2", contract.ReasonNoEndpoint},
	{"response.flags==128", contract.ReasonOverflow},
	{"response.flags==256", contract.ReasonNoRoute},
	{"response.flags==16777216", contract.ReasonNoRoute},
}

// reason is an operator that tells why the proxy ended something by itself.
func (p Place) reason() string {
	var all []because
	otherwise := quoted(contract.ReasonUndecided)
	if p.TCP {
		if all, otherwise = ofFlags, quoted(contract.ReasonConnectFailed); p.Inbound {
			all = append([]because{{has(networkPermissions, networkVerdict) + "&&" + valueOf(networkPermissions, networkVerdict) + "=='" + denied + "'", contract.ReasonNoPermission}}, all...)
		}
	} else {
		for _, b := range ofDetails {
			all = append(all, because{fmt.Sprintf(b.holds, "response.code_details"), b.reason})
		}
		if p.Inbound {
			all = append([]because{{"response.code_details.startsWith('rbac_')", contract.ReasonNoPermission}}, all...)
			// The filter is told of every answer, and knows the reason of its own.
			otherwise = has(contract.MetadataNamespace, contract.MetaReason) + "?" + valueOf(contract.MetadataNamespace, contract.MetaReason) + ":" + otherwise
		}
	}
	var b strings.Builder
	for _, x := range all {
		b.WriteString(x.holds + "?" + quoted(x.reason) + ":")
	}
	return "%CEL(" + b.String() + otherwise + ")%"
}

// has holds where a filter has noted something of a request or a connection.
func has(filter, key string) string {
	return "'" + filter + "' in metadata.filter_metadata&&'" + key + "' in metadata.filter_metadata['" + filter + "']"
}

func valueOf(filter, key string) string {
	return "metadata.filter_metadata['" + filter + "']['" + key + "']"
}

func quoted(r contract.Reason) string { return "'" + string(r) + "'" }

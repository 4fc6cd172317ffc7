package accesslog

import (
	"fmt"
	"strconv"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan"
)

// Place is a port of a sidecar. What is logged there differs in nothing else, so that
// proxies with the same port share its listener.
type Place struct {
	Mesh string
	// Service is whose port it is, or where it leads.
	Service string
	// Inbound is set where others call, TCP where there are connections and no requests.
	Inbound, TCP bool
}

// Names of the filters of permissions, which note what they decided. That of connections
// notes only what its shadow rules did.
const (
	httpPermissions    = "envoy.filters.http.rbac"
	networkPermissions = "envoy.filters.network.rbac"
	httpVerdict        = "enforced_engine_result"
	networkVerdict     = "shadow_engine_result"
	denied             = "denied"
)

// Envoy's flags of what it answers before a service has, and of what may also cut an
// answer that the service has begun.
var (
	undelivered = []string{"UH", "UF", "UO", "NR", "NC"}
	answered    = []string{"FI", "RL", "DPE", "OM"}
	cut         = []string{"UC", "UR", "LR", "UT", "UPE", "SI"}
)

// Sidecar is the logger of a port of a sidecar, none where nothing is logged. It writes
// what the proxy refused or could not deliver. What a workload answered passes a few
// comparisons when it has ended, and no format.
//
// An agent takes only extensions that it knows, and one of the version before knows no
// filter that reads expressions. The format does, in Envoy itself.
func Sidecar(s Settings, p Place) ([]*accesslogv3.AccessLog, error) {
	if !s.Enabled {
		return nil, nil
	}
	f, err := s.format()
	if err != nil {
		return nil, fmt.Errorf("the format of the access log %w", err)
	}
	fields := translated(f.fields, p.say)
	if s.Format == "" {
		fields = p.fields(fields)
	}
	name, config, err := lines(fields)
	if err != nil {
		return nil, err
	}
	logger, err := loggerOf(name, config, p.filter())
	if err != nil {
		return nil, err
	}
	return []*accesslogv3.AccessLog{logger}, nil
}

// filter lets through what the proxy ended by itself.
func (p Place) filter() *accesslogv3.AccessLogFilter {
	if p.TCP {
		if !p.Inbound {
			return flagged(undelivered...)
		}
		return anyOf(flagged(undelivered...), noted(networkPermissions, networkVerdict, false, denied))
	}
	failed := anyOf(status(accesslogv3.ComparisonFilter_GE, 400), failedGRPC())
	all := []*accesslogv3.AccessLogFilter{flagged(append(undelivered[:len(undelivered):len(undelivered)], answered...)...), both(flagged(cut...), failed)}
	if p.Inbound {
		all = append(all, noted(httpPermissions, httpVerdict, false, denied),
			noted(contract.MetadataNamespace, contract.MetaDecision, false, string(contract.Refused)))
	}
	return anyOf(all...)
}

// fields are those of the default format with what only sidecars know, and without what
// does not apply: a proxy may have very many ports. No header of a caller says here who
// a client further away was, or what it asked for.
func (p Place) fields(fields map[string]any) map[string]any {
	for name, value := range fields {
		if value == nothing {
			delete(fields, name)
		}
	}
	fields["mesh"], fields["direction"] = p.say("mesh", ""), p.say("direction", "")
	if p.Inbound {
		fields["caller"] = p.say("caller", "")
	}
	fields["client"] = "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%"
	if !p.TCP {
		fields["host"] = "%REQ(:AUTHORITY):256%"
		return fields
	}
	for _, name := range []string{"request_id", "status", "grpc_status", "protocol", "method", "host", "user_agent", "first_byte_ms"} {
		delete(fields, name)
	}
	return fields
}

// say is one of our words at this port.
func (p Place) say(word, length string) string {
	said := nothing
	switch word {
	case "decision":
		return literal(string(contract.Refused), length)
	case "mesh":
		return literal(p.Mesh, length)
	case "service":
		return literal(p.Service, length)
	case "direction":
		if p.Inbound {
			return literal("inbound", length)
		}
		return literal("outbound", length)
	case "reason":
		said = p.reason()
	case "caller":
		if p.Inbound {
			said = "%DOWNSTREAM_PEER_URI_SAN%"
		}
	case "path":
		if !p.TCP {
			// Envoy's own operator needs no formatter, which each port would have one of.
			said = "%PATH(NQ:PATH):512%"
		}
	case "details":
		if said = details; p.TCP {
			said = "%CONNECTION_TERMINATION_DETAILS%"
		}
	case "consumer", "consumer_id", "application":
		// Headers are what the caller says until the filter has looked.
		if p.Inbound && !p.TCP {
			said = words[word][ended]
		}
	}
	return shortened(said, length)
}

// literal is a text that Envoy prints as it is.
func literal(text, length string) string {
	if n, err := strconv.Atoi(strings.TrimPrefix(length, ":")); err == nil && n < len(text) {
		text = text[:n]
	}
	return plan.Literal(text)
}

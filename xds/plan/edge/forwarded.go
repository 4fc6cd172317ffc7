package edge

import (
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan"
)

const (
	// headerForwardedFor lists the addresses that a request has come from.
	headerForwardedFor = "x-forwarded-for"
	// headerForwarded says all of that in one (RFC 7239), to upstreams that read it.
	headerForwarded = "forwarded"
)

// asked are the headers that tell upstreams what the client asked for.
// X-Forwarded-For and -Proto are Envoy's own, X-Real-IP the route table's.
var asked = []struct{ name, value string }{
	{"x-forwarded-host", "%REQ(:AUTHORITY)%"},
	{"x-forwarded-port", "%DOWNSTREAM_LOCAL_PORT%"},
	{"x-forwarded-path", "%PATH(NQ:PATH)%"},
}

// mutations run before routing and before Envoy sets its own headers, on every
// request, so they are only what cannot wait for the filter: the header by which
// the OAuth server's route is chosen goes. What a client says of the request that
// it was sent counts from trusted ones alone; their X-Forwarded-Proto is kept for
// the OAuth server as it came, and only theirs. Everything else that
// clients may not say of themselves is removed by the filter, in one pass instead
// of one for each name.
func mutations(trusted bool) []*mutationv3.HeaderMutation {
	out := []*mutationv3.HeaderMutation{
		remove(contract.HeaderOAuthPlugin),
		remove(contract.HeaderOAuthProto),
	}
	if trusted {
		out = append(out, set(overwrite(contract.HeaderOAuthProto, "%REQ(X-FORWARDED-PROTO)%")))
	} else {
		// Envoy then writes the address of the peer as the only one.
		out = append(out, remove(headerForwardedPrefix), remove(headerForwardedFor), remove(headerForwarded))
	}
	for _, h := range asked {
		option := overwrite(h.name, h.value)
		if trusted {
			option.AppendAction = corev3.HeaderValueOption_ADD_IF_ABSENT
		}
		out = append(out, set(option))
	}
	return out
}

func remove(name string) *mutationv3.HeaderMutation {
	return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Remove{Remove: name}}
}

func set(option *corev3.HeaderValueOption) *mutationv3.HeaderMutation {
	return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Append{Append: option}}
}

// forwarded tells upstreams whose request it is. A trusted client names another
// one; what others say is overwritten, and nobody can have it dropped.
func forwarded() []*corev3.HeaderValueOption {
	return []*corev3.HeaderValueOption{plan.Upgrade(), overwrite("x-real-ip", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%")}
}

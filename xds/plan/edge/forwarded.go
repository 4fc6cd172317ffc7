package edge

import (
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/chain"
	"github.com/meshgate/meshgate/xds/plan"
)

const (
	// headerForwardedFor lists the addresses that a request has passed through.
	headerForwardedFor = "x-forwarded-for"
	// headerForwarded contains all forwarding information in one header (RFC 7239), for
	// upstreams that read it.
	headerForwarded = "forwarded"
)

// asked are the headers that tell upstreams what the client requested. Envoy itself sets
// X-Forwarded-For and -Proto, and the route table sets X-Real-IP.
var asked = []struct{ name, value string }{
	{"x-forwarded-host", "%REQ(:AUTHORITY)%"},
	{"x-forwarded-port", "%DOWNSTREAM_LOCAL_PORT%"},
	{"x-forwarded-path", "%PATH(NQ:PATH)%"},
}

// mutations returns the header changes that run on every request, before routing and before
// Envoy sets its own headers. They include only what cannot wait for the filter. They remove
// the header that selects the route of the OAuth server. Forwarding headers count only if the
// client is trusted; the X-Forwarded-Proto of a trusted client, and of no other, is preserved
// for the OAuth server. The filter removes all other headers that clients must not set, in one
// pass instead of one per name, or [chain.EarlyRemovals] do.
func mutations(m contract.Mode, trusted bool) []*mutationv3.HeaderMutation {
	out := append(chain.EarlyRemovals(m),
		remove(contract.HeaderOAuthPlugin),
		remove(contract.HeaderOAuthProto),
	)
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

// forwarded returns the headers that tell upstreams who sent the request. A trusted client may
// name another sender. Values of other clients are overwritten, and no client can have these
// headers dropped.
func forwarded() []*corev3.HeaderValueOption {
	return []*corev3.HeaderValueOption{plan.Upgrade(), overwrite("x-real-ip", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%")}
}

package extauthz

import (
	"sync/atomic"
	"unicode/utf8"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// decisions counts what became of requests.
type decisions struct {
	allowed, issued atomic.Uint64
	refused         map[contract.Reason]*atomic.Uint64 // for all reasons; the map never changes
}

func newDecisions() *decisions {
	d := &decisions{refused: map[contract.Reason]*atomic.Uint64{}}
	for _, r := range contract.Reasons {
		d.refused[r] = new(atomic.Uint64)
	}
	return d
}

// Decisions are counters since the start of a server.
type Decisions struct {
	// Allowed requests went upstream, Issued ones to the OAuth server.
	Allowed, Issued uint64
	// Refused has the reasons that were met.
	Refused map[contract.Reason]uint64
}

// Decisions returns what became of the requests so far.
func (s *Server) Decisions() Decisions {
	out := Decisions{Allowed: s.decisions.allowed.Load(), Issued: s.decisions.issued.Load(), Refused: map[contract.Reason]uint64{}}
	for reason, n := range s.decisions.refused {
		if n := n.Load(); n > 0 {
			out.Refused[reason] = n
		}
	}
	return out
}

// EachStats calls f with the counters of the token cache once it is open.
func (s *Server) EachStats(f func(*tokencache.Stats)) { s.host.EachStats(f) }

// Keys of the metadata with which a route names itself and its service.
var routeKeys = [...]string{contract.MetaRoute, contract.MetaRouteID, contract.MetaService, contract.MetaServiceID}

// said returns a note for the access log, which Envoy keeps as dynamic metadata of the
// request under the name of its filter.
func said(decision contract.Decision) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{contract.MetaDecision: structpb.NewStringValue(string(decision))}}
}

// noteIssued counts a request that goes to the OAuth server. It then takes another route, so
// the names of the first one are noted, if Envoy sends the metadata of routes.
func (m *message) noteIssued(r *authv3.CheckResponse) {
	m.server.decisions.issued.Add(1)
	r.DynamicMetadata = said(contract.Issued)
	// A listener may select the route to the OAuth server by this, which no client can say.
	r.DynamicMetadata.Fields[contract.StateOAuth] = structpb.NewStringValue(contract.StateHandedOver)
	from := m.route.GetFilterMetadata()[contract.MetadataNamespace].GetFields()
	for _, key := range routeKeys {
		if v := from[key].GetStringValue(); v != "" {
			r.DynamicMetadata.Fields[key] = structpb.NewStringValue(v)
		}
	}
}

// noteRefused counts a refused request, and notes who asked as far as this is known. v may be
// nil.
func (m *message) noteRefused(r *authv3.CheckResponse, reason contract.Reason, v *engine.Verdict, buf []byte) {
	if n := m.server.decisions.refused[reason]; n != nil {
		n.Add(1)
	}
	r.DynamicMetadata = said(contract.Refused)
	r.DynamicMetadata.Fields[contract.MetaReason] = structpb.NewStringValue(string(reason))
	if v == nil {
		return
	}
	for key, header := range map[string]contract.Header{
		contract.MetaConsumerID: contract.HeaderConsumerID, contract.MetaConsumer: contract.HeaderConsumerUsername,
		contract.MetaApplication: contract.HeaderCredentialIdentifier,
	} {
		// A message of protobuf holds no other text.
		if s := v.Headers[header]; s.Len > 0 && utf8.Valid(buf[s.Off:s.Off+s.Len]) {
			r.DynamicMetadata.Fields[key] = structpb.NewStringValue(string(buf[s.Off : s.Off+s.Len]))
		}
	}
}

package edge

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/filter/contract"
)

// about records in the metadata of a route, for the access log, what the route does with
// requests that the filter lets pass. why is empty unless the route refuses them.
func about(r *routev3.Route, decision contract.Decision, why contract.Reason, entity map[string]string) *routev3.Route {
	s := &structpb.Struct{Fields: map[string]*structpb.Value{contract.MetaDecision: structpb.NewStringValue(string(decision))}}
	if why != "" {
		s.Fields[contract.MetaReason] = structpb.NewStringValue(string(why))
	}
	for key, value := range entity {
		s.Fields[key] = structpb.NewStringValue(value)
	}
	r.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{contract.MetadataNamespace: s}}
	return r
}

// entity returns the names and ids of the route and its service.
func (k routeKey) entity() map[string]string {
	out := map[string]string{contract.MetaRoute: label(k.route.Spec.Name, k.route.ID), contract.MetaRouteID: k.route.ID}
	if k.service != nil {
		out[contract.MetaService], out[contract.MetaServiceID] = label(k.service.Spec.Name, k.service.ID), k.service.ID
	}
	return out
}

// label returns the name of something or, without a name, its id.
func label(name, id string) string {
	if name != "" {
		return name
	}
	return id
}

// maxLabel is the maximum length of a part that a user has named.
const maxLabel = 60

// statLabel turns a name into a part of a name inside Envoy. It replaces characters that
// separate the parts of statistics, and limits the length.
func statLabel(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, name[:min(len(name), maxLabel)])
}

// name returns a name that is unique by the id and readable by the name of the route.
func (k routeKey) name() string {
	if k.route.Spec.Name == "" {
		return k.route.ID
	}
	return statLabel(k.route.Spec.Name) + "~" + k.route.ID
}

package lifecycle

import (
	"context"
	"fmt"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Limits returns the hook for a kind of limits. The proxies of callers know a service outside the
// mesh by nothing but its service tag. A limit for part of it would silently not be there, so it
// is refused, whichever of the two comes first.
func Limits(kind *model.Kind) admit.Hook { return limits{kind: kind} }

// LimitedExternals returns the same for [mesh.ExternalServices].
func LimitedExternals(kind *model.Kind) admit.Hook { return limits{kind, true} }

const (
	textPartOfExternal = "RateLimit applied to external service only supports mesh.io/service as destination match"
	textPartlyLimited  = "ExternalService would match RateLimit '%s' which includes incompatible destination matches"
)

type limits struct {
	kind *model.Kind
	// external says that the hook is that of ExternalServices.
	external bool
}

// Prepare implements admit.Hook.
func (limits) Prepare(context.Context, store.Reader, string, any) (any, error) { return nil, nil }

// Deleting implements admit.Hook.
func (limits) Deleting(store.Tx, *model.Resource) error { return nil }

// Stored implements admit.Hook.
func (l limits) Stored(tx store.Tx, _, stored *model.Resource, _ any) error {
	other := mesh.ExternalServices
	if l.external {
		other = l.kind
	}
	all, err := store.ListAll(tx, other, store.Query{Scope: stored.Scope})
	if err != nil {
		return err
	}
	for _, res := range all {
		limit, service, path, text := stored, res, "ratelimit", textPartOfExternal
		if l.external {
			limit, service, path, text = res, stored, "externalservice", fmt.Sprintf(textPartlyLimited, res.Name)
		}
		s, ok := service.Spec.(*mesh.ExternalService)
		of, known := limit.Spec.(model.Selecting)
		if ok && known && partly(of.SelectedDestinations(), s.Tags) {
			return fault.Violated([]fault.Violation{{Path: path, Message: text}})
		}
	}
	return nil
}

// partly reports whether a selector is about a service and demands other tags of it, or chooses it
// by other tags alone. Callers compare nothing but the service, so such a limit would count nothing.
func partly(selectors []map[string]string, tags mesh.Tags) bool {
	for _, s := range selectors {
		of, named := s[mesh.TagService]
		switch {
		case !named && len(s) > 0 && mesh.Matches(s, tags):
			return true
		case named && len(s) > 1 && (of == mesh.AnyValue || of == tags.Service()):
			return true
		}
	}
	return false
}

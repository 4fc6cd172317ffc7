package publish

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
)

// membership returns what a control plane consists of that is not followed; nil for a mesh.
// A group that could never be read, because its members clash, has no view that would say
// whose writes are its own.
func (l *Loop) membership(ctx context.Context, scope string) (*view.Membership, error) {
	name, ok := planeOf(scope)
	if !ok {
		return nil, nil //nolint:nilnil // a mesh consists of nothing else
	}
	return l.Views.Membership(ctx, name)
}

// planeOf returns the name of the control plane that a scope is of.
func planeOf(scope string) (name string, is bool) {
	return strings.CutPrefix(scope, ControlPlaneScope(""))
}

// opens lists the scopes that are being opened.
func (l *Loop) opens() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.opening))
}

// memberships adds those of scopes.
func (l *Loop) memberships(ctx context.Context, known map[string]*view.Membership, scopes []string) error {
	for _, scope := range scopes {
		if _, done := known[scope]; done {
			continue
		}
		m, err := l.membership(ctx, scope)
		if err != nil {
			return err
		}
		known[scope] = m
	}
	return nil
}

// ofPlane reports whether the scope of a change is the name of a control plane, as far as
// that is known of its kind.
func (l *Loop) ofPlane(key model.Key) bool {
	scoping, known := l.scopings[key.Kind]
	return !known || scoping == model.ControlPlane
}

package admit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// vacant refuses a transaction that makes a group of a control plane which has entities.
// Nobody would see them any more, and nobody could delete them.
func (g *Gate) vacant(tx store.Tx) error {
	for _, c := range tx.Changes() {
		for _, scope := range g.resolver.Shaped(c) {
			src, err := g.resolver.Resolve(tx, scope)
			if err != nil {
				return err
			}
			if !src.IsUnion() {
				continue
			}
			left, err := g.entities(tx, scope)
			if err != nil {
				return err
			}
			if len(left) > 0 {
				return fault.New(fault.Invalid, "%q cannot be a group of control planes: it has entities of its own (%s); delete them first, or make another control plane the group",
					scope, strings.Join(left, ", "))
			}
		}
	}
	return nil
}

// entities counts what a control plane has that a group may not have, by kind. What no API
// writes goes with what it belongs to.
func (g *Gate) entities(r store.Reader, scope string) (counts []string, err error) {
	for _, k := range g.kinds {
		if k.Scoping != model.ControlPlane || k.ReadOnly {
			continue
		}
		refused, err := g.resolver.ReadOnly(r, model.Key{Kind: k.Name, Scope: scope})
		if err != nil {
			return nil, err
		}
		if !refused {
			continue
		}
		n, err := r.Count(k, store.Query{Scope: scope})
		if err != nil {
			return nil, err
		}
		what := k.Plural()
		if n == 1 {
			what = k.Name
		}
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, what))
		}
	}
	slices.SortFunc(counts, func(a, b string) int {
		_, a, _ = strings.Cut(a, " ")
		_, b, _ = strings.Cut(b, " ")
		return strings.Compare(a, b)
	})
	return counts, nil
}

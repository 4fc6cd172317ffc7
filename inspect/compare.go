package inspect

import (
	"context"
	"encoding/json"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

// Configuration shows the configuration of a node as a JSON object: what it has acknowledged
// or, with shadow, what it should have; with diff, also the difference between the two. The
// node need not be connected. The text must not be used after show has returned.
func (d *Dumps) Configuration(ctx context.Context, node string, shadow, diff bool, show func(doc []byte)) error {
	return d.alone(ctx, node, func(ctx context.Context) error {
		about, _ := d.o.Node(node) // a node that was never there has refused nothing
		s := d.known(node, about.Rejected)
		if shadow {
			var err error
			if s.desired, err = d.o.Desired(ctx, node); err != nil {
				return err
			}
		}
		doc, err := s.configuration(shadow, diff)
		if err != nil {
			return err
		}
		return present(doc, show)
	})
}

// Compare shows what a node should have, what it was sent and what it has acknowledged side by
// side, with the difference of each resource if diff is set. If it cannot be said what the node
// should have, the comparison says why. NotFound is about an unknown node.
func (d *Dumps) Compare(ctx context.Context, node string, diff bool, show func(doc []byte)) error {
	return d.alone(ctx, node, func(ctx context.Context) error {
		about, err := d.o.Node(node)
		if err != nil {
			return err
		}
		s, doc := d.known(node, about.Rejected), nodes.Comparison{Node: node, State: about.State}
		if s.desired, err = d.o.Desired(ctx, node); err != nil {
			if ctx.Err() != nil {
				return fault.Wrap(fault.Unavailable, err, "it takes too long to say what the node should have: ask again")
			}
			doc.Problem, s.desired = err.Error(), s.Set
		}
		if doc.Resources, err = s.compare(diff); err != nil {
			return err
		}
		doc.Acknowledged = doc.Problem == "" && s.Answered != nil && len(s.Refused) == 0
		for _, r := range doc.Resources {
			doc.Acknowledged = doc.Acknowledged && r.State == Acknowledged
		}
		return present(doc, show)
	})
}

// present passes a document to show.
func present(doc any, show func([]byte)) error {
	text, err := json.Marshal(doc)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the answer cannot be encoded")
	}
	show(text)
	return nil
}

// alone calls with when it is the turn of a node; see [AtOnce].
func (d *Dumps) alone(ctx context.Context, node string, with func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	leave, err := d.enter(ctx, node)
	if err != nil {
		return err
	}
	defer leave()
	return with(ctx)
}

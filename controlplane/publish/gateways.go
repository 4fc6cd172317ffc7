package publish

import (
	"context"
	"fmt"
	"time"

	"github.com/meshgate/meshgate/xds/plan/edge"
)

// Follow returns when the control plane of an enrolled gateway is followed, be the
// gateway connected or not. From then on HasPlugin knows.
func (l *Loop) Follow(ctx context.Context, id string) error {
	_, err := l.follow(ctx, id)
	return err
}

func (l *Loop) follow(ctx context.Context, id string) (*gatewayPlane, error) {
	name, _, err := ParseNode(id)
	if err != nil {
		return nil, err
	}
	if _, err := l.parameters(ctx, id); err != nil {
		return nil, err // no control plane is opened for it
	}
	p, err := l.controlPlane(ctx, name, l.Views.ControlPlane)
	if err != nil {
		return nil, fmt.Errorf("open control plane %s: %w", name, err)
	}
	return p, nil
}

// connectGateway registers a stream of a gateway, as Connect says.
func (l *Loop) connectGateway(ctx context.Context, id string) (release func(), err error) {
	p, err := l.follow(ctx, id)
	if err != nil {
		return nil, err
	}
	// Nobody says anything new between the reading and the place among the connected
	// ones, after which Enrolled finds the gateway.
	p.enrolling.Lock()
	defer p.enrolling.Unlock()
	params, err := l.parameters(ctx, id)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	set, err := p.join(id, params, time.Now())
	if err != nil {
		return nil, err
	}
	return l.connected(id, p, batch{id: set}, nil), nil
}

// Enrolled says that a gateway has enrolled, maybe with other parameters than before.
// A connected one is planned by them at once; if that is not possible, it keeps what
// it has. What the others connect with is read when they do.
func (l *Loop) Enrolled(ctx context.Context, id string) error {
	name, _, err := ParseNode(id)
	if err != nil {
		return err
	}
	p := l.followedPlane(name)
	if p == nil { // nobody has read anything yet
		_, err := l.parameters(ctx, id)
		return err
	}
	p.enrolling.Lock()
	defer p.enrolling.Unlock()
	params, err := l.parameters(ctx, id)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, joined := p.nodes[id]; !joined || before == params {
		return nil // it has left meanwhile, or nothing is new
	}
	set, err := p.join(id, params, time.Now())
	if err != nil {
		return err
	}
	l.announce(p, batch{id: set})
	return nil
}

func (l *Loop) parameters(ctx context.Context, id string) (edge.Params, error) {
	params, err := l.Parameters.Gateway(ctx, id)
	if err != nil {
		return params, fmt.Errorf("parameters of node %s: %w", id, err)
	}
	return params, nil
}

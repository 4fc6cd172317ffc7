package publish

import (
	"context"
	"fmt"
	"time"

	"github.com/meshgate/meshgate/xds/plan/edge"
)

// Follow returns when the control plane of an enrolled gateway is followed. The gateway
// does not have to be connected. From then on [Loop.HasPlugin] answers for that control
// plane.
func (l *Loop) Follow(ctx context.Context, id string) error {
	_, err := l.follow(ctx, id)
	return err
}

func (l *Loop) follow(ctx context.Context, id string) (*gatewayPlane, error) {
	name, _, err := ParseNode(id)
	if err != nil {
		return nil, err
	}
	defer l.comes(name)() // a deletion after the next question is not missed
	if _, err := l.parameters(ctx, id); err != nil {
		return nil, err // an unknown node must not open a control plane
	}
	p, err := l.controlPlane(ctx, name, l.Views.ControlPlane)
	if err != nil {
		return nil, fmt.Errorf("open control plane %s: %w", name, err)
	}
	if p.ended() {
		return nil, p.errDeleted()
	}
	return p, nil
}

// connectGateway does what [Loop.Connect] does, for a gateway.
func (l *Loop) connectGateway(ctx context.Context, id string) (release func(), err error) {
	p, err := l.follow(ctx, id)
	if err != nil {
		return nil, err
	}
	// The lock covers both reading the parameters and registering the gateway. Without it,
	// an enrolment in between would be lost: Enrolled would not find the gateway yet.
	p.enrolling.Lock()
	defer p.enrolling.Unlock()
	params, err := l.parameters(ctx, id)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended() {
		return nil, p.errDeleted()
	}
	set, err := p.join(id, params, time.Now())
	if err != nil {
		return nil, err
	}
	return l.connected(id, p, batch{id: set}, nil), nil
}

// Enrolled tells the loop that a gateway has enrolled, possibly with new parameters. A
// connected gateway is planned with them at once. If this fails, it keeps its
// configuration. The parameters of other gateways are read when they connect.
func (l *Loop) Enrolled(ctx context.Context, id string) error {
	name, _, err := ParseNode(id)
	if err != nil {
		return err
	}
	p := l.followedPlane(name)
	if p == nil { // no parameters of this control plane were read yet
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
		return nil // it has left meanwhile, or nothing has changed
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

package publish_test

import (
	"context"
	"sync"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	plan "github.com/meshgate/meshgate/xds/plan/edge"
	"github.com/meshgate/meshgate/xds/resource"
)

// enrolled holds the last parameters of the gateways.
type enrolled struct {
	mu   sync.Mutex
	port uint32
	// then, if set, is called once after a reading.
	then func()
}

// Gateway implements publish.Parameters.
func (e *enrolled) Gateway(context.Context, string) (plan.Params, error) {
	e.mu.Lock()
	port, then := e.port, e.then
	e.then = nil
	e.mu.Unlock()
	if then != nil {
		then()
	}
	if port == 0 {
		return plan.Params{}, fault.New(fault.NotFound, "it did not enrol")
	}
	return plan.Params{HTTPPort: port, HTTPSPort: 8443, OAuth: plan.Endpoint{Host: "127.0.0.1", Port: 5678}}, nil
}

func (e *enrolled) set(port uint32, then func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.port, e.then = port, then
}

// TestGatewayThatEnrolsAgain: a connected gateway that enrols with another port is planned
// with it at once. Other gateways are not planned again.
func TestGatewayThatEnrolsAgain(t *testing.T) {
	says := &enrolled{port: 8000}
	r := startWith(t, nil, says)
	r.put(gateway.Services, serviceID, service(9000))
	r.put(gateway.Routes, routeID, route("/a"))
	r.connect(nodeA)
	before := r.out.set(nodeA)
	again := func(node string) {
		t.Helper()
		if err := r.loop.Enrolled(r.ctx, node); err != nil {
			t.Fatal(err)
		}
	}
	again(nodeA)
	if r.out.set(nodeA) != before {
		t.Error("what was said before is planned anew")
	}
	says.set(8001, nil)
	again(nodeB)
	if r.out.set(nodeB) != nil || r.out.set(nodeA) != before {
		t.Error("a gateway that is not connected has a set")
	}
	again(nodeA)
	after := r.out.set(nodeA)
	if after == nil || after.Equal(before) || after.Len(resource.Listener) != before.Len(resource.Listener) {
		t.Errorf("its set is %v", after)
	}
	says.set(0, nil)
	if err := r.loop.Enrolled(r.ctx, nodeA); !fault.Is(err, fault.NotFound) || r.out.set(nodeA) != after {
		t.Errorf("a gateway of which nothing can be read: %v", err)
	}
}

// TestGatewayThatEnrolsWhileItConnects: an enrolment between the reading of the parameters
// and the registration of the gateway is not lost.
func TestGatewayThatEnrolsWhileItConnects(t *testing.T) {
	says := &enrolled{}
	r := startWith(t, nil, says)
	r.put(gateway.Services, serviceID, service(9000))
	r.put(gateway.Routes, routeID, route("/a"))
	says.set(8001, nil)
	r.connect(nodeB)
	said := make(chan error, 1)
	says.set(8000, func() {
		says.set(8001, nil)
		go func() { said <- r.loop.Enrolled(r.ctx, nodeA) }()
	})
	r.connect(nodeA)
	if err := <-said; err != nil {
		t.Fatal(err)
	}
	if !r.out.set(nodeA).Equal(r.out.set(nodeB)) {
		t.Error("it is planned by what it said before")
	}
}

// slow blocks the second reading of one gateway, whose result is the one that counts.
type slow struct {
	mu       sync.Mutex
	node     string
	readings int
	reached  chan struct{}
	end      chan struct{}
}

// Gateway implements publish.Parameters.
func (s *slow) Gateway(_ context.Context, node string) (plan.Params, error) {
	s.mu.Lock()
	hangs := false
	if node == s.node {
		s.readings++
		hangs = s.readings == 2
	}
	s.mu.Unlock()
	if hangs {
		close(s.reached)
		<-s.end
	}
	return plan.Params{HTTPPort: 8000, HTTPSPort: 8443, OAuth: plan.Endpoint{Host: "127.0.0.1", Port: 5678}}, nil
}

// TestSlowControlPlaneHoldsUpItsGatewaysOnly: a control plane whose gateway takes long to
// be read and planned does not hold up gateways of other control planes.
func TestSlowControlPlaneHoldsUpItsGatewaysOnly(t *testing.T) {
	says := &slow{node: "cp/other/a", reached: make(chan struct{}), end: make(chan struct{})}
	r := startWith(t, nil, says)
	held := make(chan error, 1)
	go func() {
		_, err := r.loop.Connect(context.Background(), says.node, false)
		held <- err
	}()
	<-says.reached
	others := make(chan error, 2)
	go func() {
		_, err := r.loop.Connect(r.ctx, nodeA, false)
		others <- err
		others <- r.loop.Enrolled(r.ctx, nodeA)
	}()
	for range 2 {
		select {
		case err := <-others:
			if err != nil {
				t.Error(err)
			}
		case <-r.ctx.Done():
			t.Error("a gateway of another control plane waits")
		}
	}
	close(says.end)
	if err := <-held; err != nil {
		t.Error(err)
	}
}

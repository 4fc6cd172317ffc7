package tokencache

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/filter/redisconn"
)

// meet asks a server in a visit of its own if this is allowed, and returns whether it was.
func (n *nodes) meet(address string, err error) (asked bool) {
	v := n.visit()
	defer v.end(false, func(nodeChange, *met) {})
	if v.enter(address) != nil {
		return false
	}
	v.leave(address, err)
	return true
}

// TestNodesAreBreakers: each server has a breaker like that of a single Redis, no matter
// what happens to the others and how the look-ups overlap.
func TestNodesAreBreakers(t *testing.T) {
	addresses := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		clock := &fakeClock{}
		n := newNodes(clock, 0)
		alone := map[string]*breaker{}
		type open struct {
			*visit
			asked   map[string]bool
			permits map[string]permit
		}
		var visits []open
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			address := rapid.SampledFrom(addresses).Draw(t, "address")
			b := alone[address]
			if b == nil {
				b = &breaker{clock: clock}
				alone[address] = b
			}
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				clock.add(time.Duration(rapid.IntRange(1, 2*int(breakerProbe)).Draw(t, "pause")))
			case 1:
				visits = append(visits, open{n.visit(), map[string]bool{}, map[string]permit{}})
			case 2, 3: // a look-up meets a server, for the first time or again
				if len(visits) == 0 {
					continue
				}
				v := visits[rapid.IntRange(0, len(visits)-1).Draw(t, "visit")]
				want, met := v.asked[address]
				if !met {
					v.permits[address], want = b.allow()
					v.asked[address] = want
				}
				if got := v.enter(address) == nil; got != want {
					t.Fatalf("%s is asked: %t, want %t", address, got, want)
				}
			case 4:
				if len(visits) == 0 {
					continue
				}
				v := visits[0]
				visits = visits[1:]
				for _, address := range addresses {
					if !v.asked[address] {
						continue
					}
					good := rapid.Bool().Draw(t, "good")
					var err error
					if !good {
						err = errUnreachable
					}
					v.leave(address, err)
					alone[address].report(v.permits[address], good)
				}
				v.end(false, func(nodeChange, *met) {})
			}
			some := false
			for address, b := range alone {
				got := n.failed[address]
				if open := got != nil && got.isOpen(); open != b.isOpen() {
					t.Fatalf("%s is open: %t", address, open)
				}
				some = some || b.isOpen() && clock.Now().Mono-b.failed < nodeKept
			}
			if n.isOpen() != some {
				t.Fatalf("one is open: %t", n.isOpen())
			}
		}
	})
}

// TestNodesCountOnceALookUp: a server that a look-up meets several times has failed at most
// once. It has not failed if it answered in the end, or if the time of the look-up was over.
func TestNodesCountOnceALookUp(t *testing.T) {
	n := newNodes(&fakeClock{}, 0)
	visit := func(over bool, results ...error) {
		v := n.visit()
		defer v.end(over, func(nodeChange, *met) {})
		for _, err := range results {
			if v.enter("a") == nil {
				v.leave("a", err)
			}
		}
	}
	for range breakerFailures - 1 {
		visit(false, errUnreachable, errUnreachable, errUnreachable)
	}
	visit(true, errUnreachable)
	if n.isOpen() {
		t.Error("left alone too soon")
	}
	visit(false, errUnreachable, nil)
	for range breakerFailures - 1 {
		visit(false, errUnreachable)
	}
	if n.isOpen() {
		t.Error("left alone although it has answered")
	}
	visit(false, nil, errUnreachable)
	if !n.isOpen() {
		t.Error("not left alone")
	}
}

// TestNodesSayWhy: a server that is not asked counts by its last failure. Each change is
// logged once.
func TestNodesSayWhy(t *testing.T) {
	clock := &fakeClock{}
	n := newNodes(clock, 0)
	fail := func(err error, want nodeChange) {
		t.Helper()
		clock.add(breakerProbe)
		if got := n.hasFailed("a", permit{began: clock.Now().Mono}, err); got != want {
			t.Errorf("%v: change %d, want %d", err, got, want)
		}
	}
	refused := func(want l2Outcome) {
		t.Helper()
		_, err := n.allow("a")
		var alone *leftAlone
		if !errors.As(err, &alone) || failureOf(fmt.Errorf("read redis: %w", err)) != want {
			t.Errorf("not asked: %v, want outcome %d", err, want)
		}
	}
	fail(errUnreachable, nodeAsBefore)
	fail(errUnreachable, nodeAsBefore)
	fail(errUnreachable, nodeSilent)
	refused(l2Failed)
	fail(redisconn.ErrNotVouched, nodeStrange)
	refused(l2Untrusted)
	fail(redisconn.ErrNotVouched, nodeAsBefore)
	fail(errUnreachable, nodeAsBefore)
	refused(l2Failed)
	for _, want := range []nodeChange{nodeBack, nodeAsBefore} {
		if got := n.hasAnswered("a", permit{began: clock.Now().Mono}); got != want {
			t.Errorf("answered: change %d, want %d", got, want)
		}
	}
	fail(redisconn.ErrNotVouched, nodeAsBefore)
	fail(redisconn.ErrNotVouched, nodeAsBefore)
	fail(redisconn.ErrNotVouched, nodeStrange)
}

// TestNodesAreBounded: even if many servers fail, there are no more breakers than a cluster
// has nodes, and probes leave turns for others. A server that nobody asks any more is not
// reported.
func TestNodesAreBounded(t *testing.T) {
	clock := &fakeClock{}
	n := newNodes(clock, 0)
	for i := range maxNodes {
		for range breakerFailures {
			n.meet(fmt.Sprint(i), errUnreachable)
		}
		clock.add(1)
	}
	n.meet("another", errUnreachable)
	if n.meet("1", errUnreachable) || !n.meet("0", errUnreachable) || len(n.failed) != maxNodes {
		t.Errorf("%d breakers, or another one than that of the first was forgotten", len(n.failed))
	}
	clock.add(breakerProbe)
	var visits []*visit
	for i := range maxNodes / 2 {
		v := n.visit()
		if v.enter(fmt.Sprint(i+maxNodes/2)) == nil {
			visits = append(visits, v)
		}
	}
	if len(visits) != maxProbes {
		t.Errorf("%d probes at a time", len(visits))
	}
	for _, v := range visits { // without an outcome, as after a panic of the store
		v.end(false, func(nodeChange, *met) {})
	}
	if n.probes != 0 || !n.meet(fmt.Sprint(maxNodes/2), nil) {
		t.Errorf("%d probes are not given back", n.probes)
	}
	if !n.isOpen() {
		t.Error("none is left alone")
	}
	clock.add(nodeKept)
	if n.isOpen() {
		t.Error("one is left alone that nobody has asked for long")
	}
}

// TestForgottenNodesKeepNobody: when a server is forgotten, those that wait for its probe go on.
func TestForgottenNodesKeepNobody(t *testing.T) {
	clock := &fakeClock{}
	n := newNodes(clock, 0)
	for i := range maxNodes {
		for range breakerFailures {
			n.meet(fmt.Sprint(i), errUnreachable)
		}
		clock.add(1)
	}
	clock.add(breakerProbe)
	probe := n.visit()
	if err := probe.enter("0"); err != nil {
		t.Fatal(err)
	}
	_, err := n.allow("0")
	var alone *leftAlone
	if !errors.As(err, &alone) || alone.probe == nil {
		t.Fatalf("no probe to wait for: %v", err)
	}
	n.meet("another", errUnreachable)
	select {
	case <-alone.probe:
	default:
		t.Error("who waits for the probe of a forgotten server goes on waiting")
	}
	probe.leave("0", errUnreachable)
	probe.end(false, func(nodeChange, *met) {})
	if n.probes != 0 || !n.meet("0", nil) {
		t.Errorf("%d probes are not given back, or one failure counts as three", n.probes)
	}
}

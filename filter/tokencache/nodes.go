package tokencache

import (
	"errors"
	"sync"
	"time"

	"github.com/meshgate/meshgate/filter/redisconn"
)

const (
	// maxNodes is the number of servers of a cluster that may have a breaker: Redis
	// recommends a thousand nodes at most. Beyond it, the server that failed longest ago is
	// forgotten, and its failure has to be detected again.
	maxNodes = 1024
	// maxProbes is the number of failed servers that may be tried at the same time. A probe
	// may wait in vain, with a turn that others need.
	maxProbes = maxLookups / 4
	// nodeKept is how long a server that nobody asks any more counts as left alone. After
	// that the cluster has replaced it.
	nodeKept = time.Minute
)

// nodes are the breakers of the servers of a cluster, by address. They are separate, so that
// a failed server does not block the others, which hold other tokens. Only servers that have
// failed once have a breaker.
type nodes struct {
	clock Clock
	// share is how long a server must have been silent to have failed.
	share time.Duration

	mu     sync.Mutex
	failed map[string]*node
	probes int
}

// node is the breaker of one server.
type node struct {
	breaker
	refusal *leftAlone // its last failure
	// told says that, since the server is left alone, it was logged that it is not one of
	// those vouched for.
	told bool
}

// leftAlone is the error for a server that is not asked.
type leftAlone struct {
	cause    error
	stranger bool
	// probe is closed when the probe of the server that is under way ends; nil without one.
	probe <-chan struct{}
}

// Error implements error.
func (e *leftAlone) Error() string { return "the server is left alone for a while: " + e.cause.Error() }

// Is makes the error an [redisconn.ErrNotVouched] if this is why the server is left alone.
func (e *leftAlone) Is(target error) bool { return e.stranger && target == redisconn.ErrNotVouched }

func newNodes(clock Clock, share time.Duration) *nodes {
	return &nodes{clock: clock, share: share, failed: map[string]*node{}}
}

// allow says whether a server may be asked, or fails with a [leftAlone]. A caller that makes
// a probe must end it with endProbe.
func (n *nodes) allow(address string) (permit, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.failed[address]
	if b == nil || !b.isOpen() {
		return permit{began: n.clock.Now().Mono}, nil
	}
	if n.probes >= maxProbes {
		return permit{}, b.refusal
	}
	p, ok := b.allow()
	if !ok {
		refusal := *b.refusal
		refusal.probe = b.underWay()
		return permit{}, &refusal
	}
	n.probes++
	return p, nil
}

// endProbe returns a probe of allow. reported says that the outcome was reported; it is
// false if the probe says nothing about the server.
func (n *nodes) endProbe(address string, p permit, reported bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.probes--
	if b := n.failed[address]; b != nil && !reported {
		b.cancel(p)
	}
}

// nodeChange is what there is to log about a server after a report.
type nodeChange uint8

const (
	nodeAsBefore nodeChange = iota
	// nodeSilent: it does not answer and is left alone from now on.
	nodeSilent
	// nodeStrange: it is left alone because it is another server than before.
	nodeStrange
	// nodeBack: it is asked again.
	nodeBack
)

// hasAnswered reports that a server has answered a look-up.
func (n *nodes) hasAnswered(address string, p permit) nodeChange {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.failed[address]
	if b == nil || !b.report(p, true) {
		return nodeAsBefore
	}
	b.told = false
	return nodeBack
}

// hasFailed reports why a server has not answered.
func (n *nodes) hasFailed(address string, p permit, err error) nodeChange {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.failed[address]
	if b == nil {
		b = &node{breaker: breaker{clock: n.clock}}
		n.makeRoom()
		n.failed[address] = b
	}
	b.refusal = &leftAlone{cause: err, stranger: errors.Is(err, redisconn.ErrNotVouched)}
	opened := b.report(p, false)
	switch {
	case !b.refusal.stranger && opened:
		return nodeSilent
	case b.refusal.stranger && b.isOpen() && !b.told:
		b.told = true
		return nodeStrange
	}
	return nodeAsBefore
}

// makeRoom forgets the server that failed longest ago if there are too many. Whoever waits for
// its probe need not: it may be asked like any server that has not failed. The caller holds mu.
func (n *nodes) makeRoom() {
	if len(n.failed) < maxNodes {
		return
	}
	oldest := ""
	for address, b := range n.failed {
		if oldest == "" || b.failed < n.failed[oldest].failed {
			oldest = address
		}
	}
	n.failed[oldest].release()
	delete(n.failed, oldest)
}

// isOpen reports whether any server is left alone.
func (n *nodes) isOpen() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock.Now().Mono
	for _, b := range n.failed {
		if b.isOpen() && now-b.failed < nodeKept {
			return true
		}
	}
	return false
}

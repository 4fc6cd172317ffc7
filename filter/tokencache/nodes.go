package tokencache

import (
	"errors"
	"sync"
	"time"

	"github.com/meshgate/meshgate/filter/redisconn"
)

const (
	// maxNodes is how many servers of a cluster may have a breaker: Redis recommends a
	// thousand nodes at most. Of more that fail the one that failed longest ago has to be
	// found out anew.
	maxNodes = 1024
	// maxProbes is how many servers that are left alone may be tried at a time. Whoever
	// tries one may wait for nothing, with a turn that others need.
	maxProbes = maxLookups / 4
	// nodeKept is how long a server that nobody asks any more counts as left alone: the
	// cluster has another one in its place.
	nodeKept = time.Minute
)

// nodes are the breakers of the servers of a cluster, by their addresses: one that fails
// must not have those left alone that hold other tokens. Only servers that have failed
// once have one.
type nodes struct {
	clock Clock
	// share is for how long a server must have been silent to have failed.
	share time.Duration

	mu     sync.Mutex
	failed map[string]*node
	probes int
}

// node is the breaker of one server.
type node struct {
	breaker
	refusal *leftAlone // says how it failed last
	// told says that it was logged that another server than those vouched for answers,
	// since it is left alone.
	told bool
}

// leftAlone is why a server is not asked.
type leftAlone struct {
	cause    error
	stranger bool
}

// Error implements error.
func (e *leftAlone) Error() string { return "the server is left alone for a while: " + e.cause.Error() }

// Is says that it is an [redisconn.ErrNotVouched] if the server was left alone for that.
func (e *leftAlone) Is(target error) bool { return e.stranger && target == redisconn.ErrNotVouched }

func newNodes(clock Clock, share time.Duration) *nodes {
	return &nodes{clock: clock, share: share, failed: map[string]*node{}}
}

// allow says whether a server may be asked, or fails with a [leftAlone]. Whoever makes a
// probe must end it.
func (n *nodes) allow(address string) (began time.Duration, probe bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.failed[address]
	if b == nil || !b.isOpen() {
		return n.clock.Now().Mono, false, nil
	}
	if n.probes >= maxProbes {
		return 0, false, b.refusal
	}
	began, ok := b.allow()
	if !ok {
		return 0, false, b.refusal
	}
	n.probes++
	return began, true, nil
}

// endProbe gives back what allow gave. The outcome was reported, if it says anything of the
// server.
func (n *nodes) endProbe(address string, reported bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.probes--
	if b := n.failed[address]; b != nil && !reported {
		b.cancel()
	}
}

// nodeChange is what there is to say of a server after a report.
type nodeChange uint8

const (
	nodeAsBefore nodeChange = iota
	// nodeSilent: it is left alone from now on.
	nodeSilent
	// nodeStrange: it is left alone, and is not the one that it was.
	nodeStrange
	// nodeBack: it is asked again.
	nodeBack
)

// hasAnswered tells that a server has answered a look-up that was allowed to ask it then.
func (n *nodes) hasAnswered(address string, began time.Duration) nodeChange {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.failed[address]
	if b == nil || !b.report(began, true) {
		return nodeAsBefore
	}
	b.told = false
	return nodeBack
}

// hasFailed tells why a server has not.
func (n *nodes) hasFailed(address string, began time.Duration, err error) nodeChange {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.failed[address]
	if b == nil {
		b = &node{breaker: breaker{clock: n.clock}}
		n.makeRoom()
		n.failed[address] = b
	}
	b.refusal = &leftAlone{cause: err, stranger: errors.Is(err, redisconn.ErrNotVouched)}
	opened := b.report(began, false)
	switch {
	case !b.refusal.stranger && opened:
		return nodeSilent
	case b.refusal.stranger && b.isOpen() && !b.told:
		b.told = true
		return nodeStrange
	}
	return nodeAsBefore
}

// makeRoom forgets the server that failed longest ago if there are too many. mu is held.
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
	delete(n.failed, oldest)
}

// isOpen says whether a server is left alone.
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

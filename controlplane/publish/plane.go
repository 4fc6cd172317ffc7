package publish

import (
	"runtime/debug"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// The pauses between two attempts to plan what failed. A change in the scope
// shortens the pause to the first one again: it may well be the remedy.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 30 * time.Second
)

// ControlPlaneScope is the scope of the gateways of a control plane as the publisher
// knows it.
func ControlPlaneScope(name string) string { return "cp/" + name }

// MeshScope is the scope of a mesh as the publisher knows it.
func MeshScope(name string) string { return "mesh/" + name }

type failure = plan.Failure

// plane is one scope of which the proxies are planned together: a control plane
// with its gateways, or a mesh. Its own lock is held by whoever calls it, but for id
// and concerns, which never change.
type plane interface {
	id() string
	// concerns reports whether a change may be part of what the plane shows.
	concerns(model.Key) bool
	// common is what all planes have.
	common() *turns
	// update takes what changed since the last call and plans.
	update(now time.Time) batch
	// leave forgets a node.
	leave(node string, now time.Time)
	// failures lists what is not published as it is configured.
	failures() listed
	// due is when something that failed is tried again, zero if nothing is.
	due() time.Time
	// gone reports whether the plane has nothing left to do. The loop's lock is held,
	// too.
	gone() bool
	close()
}

// turns is what a plane has to be planned beside others, and how far it is. Lock mu
// before [Loop.mu].
type turns struct {
	// mu is held while the plane is planned and published.
	mu sync.Mutex
	// wake has a signal while there may be something to plan.
	wake chan struct{}
	// over is closed when the plane is not followed any more.
	over chan struct{}

	standing
	// announced is what was published last. The loop's lock guards it.
	announced announced
}

func newTurns() turns {
	return turns{wake: make(chan struct{}, 1), over: make(chan struct{})}
}

func (t *turns) common() *turns { return t }

// signal has a round made.
func (t *turns) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// ended reports whether the plane is not followed any more.
func (t *turns) ended() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

// batch is what an update has made: the sets of the nodes for which something
// differs.
type batch map[string]*resource.Set

// standing is how far a plane is. Revision never goes back.
type standing struct {
	// revision is that of the newest state of which all is planned.
	revision uint64
	// reached is that of the scope itself, for one that looks at others.
	reached uint64
	// lacks, unless 0, is the oldest revision that is not shown although revision
	// is newer: that of another scope that the plane looks at.
	lacks uint64
	// since, unless 0, is the oldest revision that the sets of the next
	// publication may hold.
	since uint64
}

// announced is what others can know of a plane.
type announced struct {
	yes                      bool
	revision, lacks, reached uint64
}

// shows reports whether a revision is published.
func (a announced) shows(revision uint64) bool {
	return a.revision >= revision && (a.lacks == 0 || revision < a.lacks)
}

// retry is a failure that is tried again after a while.
type retry struct {
	err      error
	pause    time.Duration
	last, at time.Time
}

// failed notes a failure at a moment.
func (r *retry) failed(err error, now time.Time) {
	r.pause = min(max(firstPause, 2*r.pause), lastPause)
	r.err, r.last, r.at = err, now, now.Add(r.pause)
}

// changed says that there is something new to try.
func (r *retry) changed() {
	if soon := r.last.Add(firstPause); r.err != nil && soon.Before(r.at) {
		r.pause, r.at = firstPause, soon
	}
}

// waits reports whether it is too early to try again.
func (r *retry) waits(now time.Time) bool { return r.err != nil && now.Before(r.at) }

// earliest is the earlier one of two times, of which zero is never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// guard calls f, of which a panic is an error.
func guard(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &plan.Failed{Value: v, Stack: debug.Stack()}
		}
	}()
	f()
	return nil
}

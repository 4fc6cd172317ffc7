package loop

import (
	"runtime/debug"
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
// with its gateways, or a mesh. The loop's lock guards it.
type plane interface {
	id() string
	// concerns reports whether a change may be part of what the plane shows.
	concerns(model.Key) bool
	// update takes what changed since the last call and plans.
	update(now time.Time) batch
	// far is how far the plane is.
	far() *standing
	// set is what a node should hold, nil for one it does not know.
	set(node string) *resource.Set
	// leave forgets a node.
	leave(node string, now time.Time)
	// failures lists what is not published as it is configured.
	failures() []Failure
	// due is when something that failed is tried again, zero if nothing is.
	due() time.Time
	// gone reports whether the plane has nothing left to do.
	gone() bool
	close()
}

// batch is what an update has made: the sets of the nodes for which something
// differs.
type batch map[string]*resource.Set

// standing is how far a plane is. Revision never goes back.
type standing struct {
	// revision is that of the newest state of which all is planned.
	revision uint64
	// lacks, unless 0, is the oldest revision that is not shown although revision
	// is newer: that of another scope that the plane looks at.
	lacks uint64
	// since, unless 0, is the oldest revision that the sets of the next
	// publication may hold.
	since uint64
	// announced is what was published last.
	announced struct {
		yes             bool
		revision, lacks uint64
	}
}

func (s *standing) far() *standing { return s }

func (s *standing) shows(revision uint64) bool {
	return s.revision >= revision && (s.lacks == 0 || revision < s.lacks)
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

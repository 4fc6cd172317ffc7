package publish

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// The pauses between two attempts to plan what failed. A change in the scope shortens the
// pause to the first one, because the change may be the fix.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 30 * time.Second
)

// ControlPlaneScope returns the publisher's name of the scope of a control plane's
// gateways.
func ControlPlaneScope(name string) string { return "cp/" + name }

// MeshScope returns the publisher's name of the scope of a mesh.
func MeshScope(name string) string { return "mesh/" + name }

type failure = plan.Failure

// cellPlan is the cell of a failure of a whole plan.
const cellPlan = "plan"

// plane is one scope whose proxies are planned together: a control plane with its gateways,
// or a mesh. Callers hold its own lock, except for id and concerns, whose results never
// change.
type plane interface {
	id() string
	// concerns reports whether a change may be part of what the plane shows.
	concerns(model.Key) bool
	// common returns the part that all planes have.
	common() *turns
	// update takes the changes since the last call and plans.
	update(now time.Time) batch
	// leave forgets a node.
	leave(node string, now time.Time)
	// failures lists what is not published as configured.
	failures() listed
	// unread returns why the scope cannot be read, or nil.
	unread() error
	// due returns the time of the next attempt of something that failed, or zero.
	due() time.Time
	// reach waits until the view shows a revision or cannot be read, or over is closed. The error is
	// that of ctx.
	reach(ctx context.Context, revision uint64, over <-chan struct{}) error
	// read reads what the view shows where a transaction begins, unless that is there already. What
	// cannot be read is left out.
	read(d view.Draft, into *Base)
	// imagine returns what a transaction makes of the scope, nil if it makes nothing of it. ok is
	// false if a view does not show the state on which the transaction is based.
	imagine(l *Loop, base *Base, d view.Draft) (i imagined, ok bool)
	// gone reports whether the plane has nothing left to do. The caller also holds the lock
	// of the loop.
	gone() bool
	close()
}

// turns holds what a plane needs to be planned independently of others, and how far it is.
// Lock mu before [Loop.mu].
type turns struct {
	// mu is held while the plane is planned and published.
	mu sync.Mutex
	// wake has a signal while there may be something to plan.
	wake chan struct{}
	// over is closed when the plane is not followed any more.
	over chan struct{}

	standing
	// announced is the last publication. The loop's lock guards it.
	announced announced
}

func newTurns() turns {
	return turns{wake: make(chan struct{}, 1), over: make(chan struct{})}
}

func (t *turns) common() *turns { return t }

// signal starts a round.
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

// batch is the result of an update: the sets of the nodes for which something differs.
type batch map[string]*resource.Set

// standing is how far a plane is. revision never decreases.
type standing struct {
	// revision is the newest revision that is planned completely.
	revision uint64
	// reached is the revision of the scope itself, if the scope looks at others.
	reached uint64
	// lacks, unless 0, is the oldest revision that is not shown although revision is newer.
	// It is a revision of another scope that the plane looks at.
	lacks uint64
	// tried is the newest revision of the scope itself that the plane has planned or failed to
	// plan. pending says that there is a change that it has not tried.
	tried   uint64
	pending bool
	// since, unless 0, is the oldest revision that the sets of the next publication may
	// contain.
	since uint64
	// parts are the scopes of parts of the plane that show less than it does, with the revisions that they
	// show, and mended those that have been such and are no longer since the last publication.
	parts  map[string]uint64
	mended []string
}

// lack notes which parts of a plane do not show what it shows from now on. What comes with a part that
// is mended may be as old as the first revision that the part did not show.
func (s *standing) lack(scopes []string) {
	for scope, shown := range s.parts {
		if slices.Contains(scopes, scope) {
			continue
		}
		delete(s.parts, scope)
		s.mended = append(s.mended, scope)
		s.date(shown + 1)
	}
	for _, scope := range scopes {
		if _, already := s.parts[scope]; already {
			continue
		}
		if s.parts == nil {
			s.parts = map[string]uint64{}
		}
		s.parts[scope] = s.revision
	}
}

// date notes that the sets of the next publication may contain a revision.
func (s *standing) date(revision uint64) {
	if s.since == 0 || revision < s.since {
		s.since = revision
	}
}

// announced is what others can know about a plane.
type announced struct {
	yes                             bool
	revision, lacks, reached, tried uint64
}

// shows reports whether a revision is published.
func (a announced) shows(revision uint64) bool {
	return a.revision >= revision && (a.lacks == 0 || revision < a.lacks)
}

// attempted notes how far a plane is that shows a revision of its scope. changed says that there is
// something new to plan, and waits that it is not tried yet because the last attempt failed.
func (s *standing) attempted(revision uint64, changed, waits bool) {
	if s.pending = waits && (s.pending || changed); !s.pending {
		s.tried = revision
	}
}

// retry is a failure and the time of the next attempt.
type retry struct {
	err      error
	pause    time.Duration
	last, at time.Time
}

// failed notes a failure at the time now and doubles the pause.
func (r *retry) failed(err error, now time.Time) {
	r.pause = min(max(firstPause, 2*r.pause), lastPause)
	r.err, r.last, r.at = err, now, now.Add(r.pause)
}

// changed notes that there is something new to try, and shortens the pause.
func (r *retry) changed() {
	if soon := r.last.Add(firstPause); r.err != nil && soon.Before(r.at) {
		r.pause, r.at = firstPause, soon
	}
}

// waits reports whether it is too early to try again.
func (r *retry) waits(now time.Time) bool { return r.err != nil && now.Before(r.at) }

// guard calls f and turns a panic into an error.
func guard(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &plan.Failed{Value: v, Stack: debug.Stack()}
		}
	}()
	f()
	return nil
}

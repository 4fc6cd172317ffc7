package delivery

import (
	"errors"
	"math"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/store"
)

// grace is for how long a process ends no event that a receiver has not got. A clock that is far ahead when
// the process starts, a host that was off for longer than events are kept, and a backup that is older than that
// would else remove everything that waits, before receivers that are well have had a chance to get it.
const grace = time.Hour

// mayEnd is the number up to which events of a portal may end now. Those that a receiver has not got may not end
// before the receiver was tried in this process, and [grace] is over. A webhook that is off is not tried.
func (e *Engine) mayEnd(tx store.Tx, portal string) (uint64, error) {
	late := e.Clock.Elapsed()-e.began >= grace
	until, err := e.mayEndForWebhook(tx, portal, late)
	if err != nil {
		return 0, err
	}
	for _, s := range e.sinks {
		if portal == cloud.ControlPlaneLog && !e.ControlPlane || late && s.tried.Load() {
			continue
		}
		done, err := s.done(tx, portal)
		if err != nil && !errors.Is(err, store.ErrUnreadable) {
			return 0, err
		}
		until = min(until, done)
	}
	return until, nil
}

func (e *Engine) mayEndForWebhook(tx store.Tx, portal string, late bool) (uint64, error) {
	hook, err := hookOf(tx, portal)
	unread := errors.Is(err, store.ErrUnreadable)
	switch {
	case err != nil && !unread:
		return 0, err
	case !unread && (hook == nil || hook.Destination == ""):
		return math.MaxUint64, nil
	}
	progress, version, err := progressIn(tx, portal)
	if err != nil {
		return 0, err
	}
	// The log of the control plane is delivered up to its end, also while it is off.
	off := unread || !hook.Enabled && (portal != cloud.ControlPlaneLog || progress.Cursor >= progress.Final)
	if version == 0 || late && (off || e.wasTried(portal)) {
		return math.MaxUint64, nil
	}
	return cloud.EventNumber(progress.Cursor), nil
}

// hasTried notes that the webhook of a portal was sent something, whatever came of it.
func (e *Engine) hasTried(portal string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tried[portal] = true
}

func (e *Engine) wasTried(portal string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tried[portal]
}

// forgetTried forgets what was found out about the receiver of a portal that is gone.
func (e *Engine) forgetTried(portal string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.tried, portal)
	delete(e.borne, portal)
}

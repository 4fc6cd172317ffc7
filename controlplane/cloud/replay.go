package cloud

import "github.com/meshgate/meshgate/controlplane/model"

// Replay is the last job that delivers kept events of a portal once more. It has the name of the portal.
type Replay struct {
	// StartAt and EndAt are the span of the events, both included, in milliseconds of Unix time.
	StartAt int64 `json:"start_at"`
	EndAt   int64 `json:"end_at"`
	// Until is the name of the last event that there was when the job was made.
	Until  string `json:"until"`
	Status string `json:"status"`
	// Cursor is the name of the last event that the job is done with.
	Cursor string `json:"cursor,omitempty"`
	// Number tells a job from the one before.
	Number string `json:"number"`
}

// The statuses of replay jobs. One that is accepted or running waits while its webhook is off: then
// it is pending.
const (
	ReplayUnconfigured = "unconfigured"
	ReplayAccepted     = "accepted"
	ReplayPending      = "pending"
	ReplayRunning      = "running"
	ReplayCompleted    = "completed"
	ReplayFailed       = "failed"
)

// Open reports whether the job has something to do.
func (r *Replay) Open() bool { return r.Status == ReplayAccepted || r.Status == ReplayRunning }

// Replays is the kind of replay jobs. Whoever makes one announces it, so that the delivery wakes up.
var Replays = model.Describe(Replay{}, model.Kind{
	Name: "audit_log_replay", Path: "audit-log-replays", Scoping: model.Global, Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
})

package cloudapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/audit/delivery"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// replayRequest is the span of a replay job.
type replayRequest struct {
	StartAt string `json:"start_at" jsonschema:"format=date-time" jsonschema_extras:"x-check=time"`
	EndAt   string `json:"end_at" jsonschema:"format=date-time" jsonschema_extras:"x-check=time"`
}

var replayForm = newForm(replayRequest{})

// replayJob is a replay job. One that has never been has a status only.
type replayJob struct {
	StartAt   string `json:"start_at,omitempty" jsonschema:"format=date-time"`
	EndAt     string `json:"end_at,omitempty" jsonschema:"format=date-time"`
	Status    string `json:"status" jsonschema:"enum=unconfigured,enum=accepted,enum=pending,enum=running,enum=completed,enum=failed"`
	UpdatedAt string `json:"updated_at,omitempty" jsonschema:"format=date-time"`
}

// leeway is by how much the clock of a client may differ.
const leeway = time.Minute

// span checks the span of a job: within what is kept, and not in the future.
func (q replayRequest) span(now time.Time) (start, end time.Time, err error) {
	start, err1 := time.Parse(time.RFC3339, q.StartAt)
	end, err2 := time.Parse(time.RFC3339, q.EndAt)
	bad := func(field, reason string) error {
		return refused(invalid{Field: field, Reason: reason, Rule: ruleInvalid, Source: fromBody})
	}
	switch {
	case err1 != nil:
		err = err1
	case err2 != nil:
		err = err2
	case start.Before(now.Add(-cloud.KeptEvents - leeway)):
		err = bad("start_at", "must be within the last 7 days")
	case end.Before(start):
		err = bad("end_at", "must not be before start_at")
	case end.After(now.Add(leeway)):
		err = bad("end_at", "must not be in the future")
	}
	return start, end, err
}

// putReplay begins a replay job. There is one at a time.
func (a hooks) putReplay(w http.ResponseWriter, r *http.Request) {
	err := a.mended(r)
	var given replayRequest
	if err == nil {
		err = replayForm.fill(a.API, w, r, &given)
	}
	var start, end time.Time
	if err == nil {
		start, end, err = given.span(a.Now())
	}
	var h hooked
	var job *model.Resource
	if err == nil {
		number := uuid.NewString()
		_, err = a.Gate.Write(r.Context(), model.Config, func(tx store.Tx) error {
			if h, err = a.in(tx, r); err != nil {
				return err
			}
			var last cloud.Replay
			if err := spec(tx, cloud.Replays, a.of(r), &last); err != nil && !errors.Is(err, store.ErrUnreadable) {
				return err
			}
			switch {
			case h.hook.Destination == "":
				return conflict("The audit log webhook has no destination")
			case last.Open():
				return &problem{Status: http.StatusConflict, Title: "Resource Conflict", Detail: "A replay job is currently running"}
			}
			job, err = delivery.ReplayRequest(tx, a.of(r), number, start, end)
			return err
		})
	}
	if err != nil {
		a.fail(w, r, err, portals)
		return
	}
	a.answer(w, r, http.StatusAccepted, replayOf(job, h.hook))
}

func (a hooks) readReplay(w http.ResponseWriter, r *http.Request) {
	var job *model.Resource
	var h hooked
	err := a.Store.View(r.Context(), func(reader store.Reader) (err error) {
		if h, err = a.in(reader, r); err != nil {
			return err
		}
		job, err = reader.Get(cloud.Replays, "", a.of(r))
		if fault.Is(err, fault.NotFound) {
			job, err = nil, nil
		}
		return err
	})
	httpkit.EntryOf(r.Context()).Name = a.of(r)
	if err != nil {
		a.fail(w, r, err, portals)
		return
	}
	a.answer(w, r, http.StatusOK, replayOf(job, h.hook))
}

// replayOf shows a job. One that cannot go on now because its webhook is off is pending.
func replayOf(job *model.Resource, hook cloud.Webhook) replayJob {
	if job == nil {
		return replayJob{Status: cloud.ReplayUnconfigured}
	}
	spec := job.Spec.(*cloud.Replay)
	status := spec.Status
	if spec.Open() && !hook.Enabled {
		status = cloud.ReplayPending
	}
	return replayJob{
		StartAt: stamp(time.UnixMilli(spec.StartAt)), EndAt: stamp(time.UnixMilli(spec.EndAt)), Status: status, UpdatedAt: stamp(job.Modified),
	}
}

package cloudapi

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/audit/delivery"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// fieldDestination is the member of a webhook that names its destination.
const fieldDestination = "audit_log_destination_id"

// webhookRecord is a webhook, and a change of one.
type webhookRecord struct {
	Enabled     *bool  `json:"enabled,omitempty"`
	Destination string `json:"audit_log_destination_id,omitempty" jsonschema_extras:"x-check=uuid"`
}

var webhookForm = newForm(webhookRecord{})

// hooks are the endpoints of a webhook: that of the portal which a path names, or that of the control
// plane itself.
type hooks struct {
	*API
	// of says whose webhook a request is about.
	of func(*http.Request) string
	// own says that it is the latter: no path of a portal leads there, whatever id it names.
	own bool
	// at begins the paths, whose ends sentences about it. write is the right to change it.
	at, whose string
	write     access.Right
}

// portalHooks are those of portals.
func (a *API) portalHooks() hooks {
	return hooks{a, portalID, false, pathOf, "of a portal", access.Write}
}

// ownHooks are those of the control plane itself. Only administrators switch off what watches them.
func (a *API) ownHooks() hooks {
	return hooks{a, func(*http.Request) string { return cloud.ControlPlaneLog }, true, base, "of the control plane", access.Administrator}
}

func (a hooks) endpoints() []httpkit.Endpoint {
	pattern, job := a.at+"/audit-log-webhook", a.at+"/audit-log-replay-job"
	const hook, replay = "audit_log_webhook", "audit_log_replay_job"
	return []httpkit.Endpoint{
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: pattern, Auth: access.Read, Summary: "Read the webhook " + a.whose, Handler: a.readWebhook}, "", http.StatusOK, hook),
		does(httpkit.Endpoint{Method: http.MethodPatch, Pattern: pattern, Auth: a.write, Summary: "Make or change the webhook " + a.whose, Handler: a.patchWebhook}, hook, http.StatusOK, hook),
		does(httpkit.Endpoint{Method: http.MethodDelete, Pattern: pattern, Auth: a.write, Summary: "Empty the webhook " + a.whose, Handler: a.removeWebhook}, "", http.StatusNoContent, ""),
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: pattern + "/status", Auth: access.Read, Summary: "Read how the webhook " + a.whose + " does", Handler: a.readStatus}, "", http.StatusOK, hook+"_status"),
		also(does(httpkit.Endpoint{Method: http.MethodPost, Pattern: pattern + "/test", Auth: a.write, Summary: "Send a marked event to the webhook " + a.whose, Handler: a.testWebhook}, "", http.StatusAccepted, hook+"_test"), http.StatusTooManyRequests),
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: job, Auth: access.Read, Summary: "Read the last replay job " + a.whose, Handler: a.readReplay}, "", http.StatusOK, replay),
		does(httpkit.Endpoint{Method: http.MethodPut, Pattern: job, Auth: a.write, Summary: "Deliver kept events " + a.whose + " once more", Handler: a.putReplay}, replay+"_request", http.StatusAccepted, replay),
	}
}

// ownEndpoints are those of the webhook of the control plane itself.
func (a *API) ownEndpoints() []httpkit.Endpoint {
	list := a.ownHooks().endpoints()
	for i := range list {
		list[i] = list[i].About(cloud.Webhooks.Name)
	}
	return list
}

// keyEndpoint shows the keys that sign events, in each part of the API.
func (a *API) keyEndpoint() httpkit.Endpoint {
	return does(httpkit.Endpoint{Method: http.MethodGet, Pattern: base + "/audit-log-webhook/jwks.json", Auth: access.Open, Summary: "Read the keys that verify the signatures of audit events", Handler: a.readKeys}, "", http.StatusOK, "jwks")
}

// hooked is a webhook and all that is known of it.
type hooked struct {
	hook     cloud.Webhook
	progress cloud.Delivery
	// spoilt says that the progress cannot be read.
	spoilt bool
}

// hooked reads the webhook that a request is about.
func (a hooks) hooked(r *http.Request) (found hooked, err error) {
	err = a.Store.View(r.Context(), func(reader store.Reader) error {
		found, err = a.in(reader, r)
		return err
	})
	httpkit.EntryOf(r.Context()).Name = a.of(r)
	return found, err
}

// in reads the webhook that a request is about, and NotFound if there is no such portal.
func (a hooks) in(reader store.Reader, r *http.Request) (hooked, error) {
	id := a.of(r)
	if !a.own {
		if _, err := portalIn(reader, id); err != nil {
			return hooked{}, err
		}
	}
	return hookedIn(reader, id)
}

func hookedIn(reader store.Reader, id string) (h hooked, err error) {
	if err = spec(reader, cloud.Webhooks, id, &h.hook); err == nil {
		err = spec(reader, cloud.Deliveries, id, &h.progress)
		if h.spoilt = errors.Is(err, store.ErrUnreadable); h.spoilt {
			err = nil
		}
	}
	return h, err
}

// unreadHook reports whether a webhook could not be read, and nothing else is the matter.
func unreadHook(err error) bool {
	row := store.UnreadIn(err)
	return row != nil && row.Kind == cloud.Webhooks
}

// mended looks for the webhook that a request is about, before it is changed. Of how far its log is, what cannot
// be read is made anew: nobody could switch it off otherwise. That is a transaction of its own, because it
// stands, and wakes up who delivers, also if the change is refused.
func (a hooks) mended(r *http.Request) error {
	h, err := a.hooked(r)
	if err == nil && h.spoilt || unreadHook(err) {
		_, err = a.Gate.Write(r.Context(), model.Credential, func(tx store.Tx) error { return delivery.Mend(tx, a.of(r)) })
	}
	return err
}

// spec reads the spec of a resource, if there is one.
func spec[T any](reader store.Reader, k *model.Kind, name string, into *T) error {
	res, err := reader.Get(k, "", name)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err == nil {
		*into = *res.Spec.(*T)
	}
	return err
}

func recordOf(h cloud.Webhook) webhookRecord {
	return webhookRecord{Enabled: &h.Enabled, Destination: h.Destination}
}

func (a hooks) readWebhook(w http.ResponseWriter, r *http.Request) {
	h, err := a.hooked(r)
	if err != nil {
		a.fail(w, r, err, portals)
		return
	}
	a.answer(w, r, http.StatusOK, recordOf(h.hook))
}

// patchWebhook changes a webhook, or makes it, also in place of one that cannot be read.
func (a hooks) patchWebhook(w http.ResponseWriter, r *http.Request) {
	err := a.mended(r)
	var given webhookRecord
	if err == nil {
		err = webhookForm.fill(a.API, w, r, &given)
	}
	var h hooked
	if err == nil {
		_, err = a.Gate.Write(r.Context(), model.Config, func(tx store.Tx) error {
			h, err = a.in(tx, r)
			unread := unreadHook(err)
			if err != nil && !unread {
				return err
			}
			if unread && a.own && given.Destination == "" {
				return errNoReceiver // who switches the log off would be heard by nobody
			}
			was := h.hook
			if err := given.apply(tx, &h.hook); err != nil {
				return err
			}
			if h.hook == was && !unread {
				return nil
			}
			if a.own && was.Destination != h.hook.Destination && !was.Enabled {
				if err := h.mustHaveEnded(); err != nil {
					return err
				}
			}
			return delivery.Lead(tx, a.of(r), h.hook)
		})
	}
	if err != nil {
		a.fail(w, r, err, portals)
		return
	}
	a.answer(w, r, http.StatusOK, recordOf(h.hook))
}

// apply changes a webhook. One that is enabled has a destination, and a destination exists.
func (c webhookRecord) apply(reader store.Reader, hook *cloud.Webhook) error {
	if c.Enabled != nil {
		hook.Enabled = *c.Enabled
	}
	if c.Destination != "" {
		hook.Destination = strings.ToLower(c.Destination)
		_, err := reader.Get(cloud.Destinations, "", hook.Destination)
		if fault.Is(err, fault.NotFound) {
			return refused(invalid{Field: fieldDestination, Reason: "the destination does not exist", Rule: "missing_reference", Source: fromBody})
		}
		if err != nil {
			return err
		}
	}
	if hook.Enabled && hook.Destination == "" {
		return refused(invalid{Field: fieldDestination, Reason: `"` + fieldDestination + `" is required`, Rule: ruleRequired, Source: fromBody})
	}
	return nil
}

func (a hooks) removeWebhook(w http.ResponseWriter, r *http.Request) {
	err := a.mended(r)
	if err == nil {
		err = a.empty(r)
	}
	if err != nil {
		a.fail(w, r, err, portals)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// errNoReceiver refuses to end a log of which nobody knows the receiver. It may be on, and somebody should
// hear that it is not.
var errNoReceiver = conflict("The audit log webhook cannot be read; give it a destination first")

// empty removes the webhook that a request is about.
func (a hooks) empty(r *http.Request) error {
	_, err := a.Gate.Write(r.Context(), model.Config, func(tx store.Tx) error {
		h, err := a.in(tx, r)
		if unreadHook(err) {
			if err = nil; a.own {
				err = errNoReceiver
			}
		}
		if err == nil && h.hook.Enabled && a.own {
			// Otherwise it would be emptied before its receiver has heard of it.
			err = conflict("The audit log webhook is enabled; disable it first")
		}
		if err == nil && a.own {
			err = h.mustHaveEnded()
		}
		if err != nil {
			return err
		}
		return delivery.Forget(tx, a.of(r))
	})
	return err
}

// mustHaveEnded refuses what would keep the end of a log that is off from its receiver. The end says who has
// switched the log off. A log that is on may go elsewhere, with its past and what is to come. A dead receiver
// holds up nobody for ever, because what is not delivered ends after seven days.
func (h hooked) mustHaveEnded() error {
	if h.spoilt || h.progress.Cursor < h.progress.Final {
		return conflict("The last events of the audit log are not delivered yet; they are given up after seven days")
	}
	return nil
}

// webhookStatus says how the deliveries of a webhook go. What was never tried is left out.
type webhookStatus struct {
	Enabled   bool   `json:"webhook_enabled"`
	Status    string `json:"webhook_status" jsonschema:"enum=active,enum=inactive,enum=unconfigured"`
	AttemptAt string `json:"last_attempt_at,omitempty" jsonschema:"format=date-time"`
	Code      int    `json:"last_response_code,omitempty"`
	Message   string `json:"last_response_message,omitempty"`
}

// The statuses of webhooks.
const (
	statusActive       = "active"
	statusInactive     = "inactive"
	statusUnconfigured = "unconfigured"
)

func (a hooks) readStatus(w http.ResponseWriter, r *http.Request) {
	h, err := a.hooked(r)
	if err != nil {
		a.fail(w, r, err, portals)
		return
	}
	a.answer(w, r, http.StatusOK, h.status())
}

// status is how the last delivery to the destination of now went.
func (h hooked) status() webhookStatus {
	s := webhookStatus{Enabled: h.hook.Enabled, Status: statusActive}
	if h.hook.Destination == "" {
		s.Status = statusUnconfigured
		return s
	}
	if h.progress.Destination != h.hook.Destination {
		return s
	}
	if h.progress.Failed {
		s.Status = statusInactive
	}
	if h.progress.AttemptedAt > 0 {
		s.AttemptAt, s.Code, s.Message = stamp(time.UnixMilli(h.progress.AttemptedAt)), h.progress.Code, h.progress.Message
	}
	return s
}

// readKeys shows the public keys. They are no secret, and receivers have no token.
func (a *API) readKeys(w http.ResponseWriter, r *http.Request) {
	a.answer(w, r, http.StatusOK, a.Signer.Keys())
}

// testEvent is the answer to a test.
type testEvent struct {
	ID string `json:"event_id"`
}

// testWebhook sends an event that says that it is a test, on the way of all others.
func (a hooks) testWebhook(w http.ResponseWriter, r *http.Request) {
	h, err := a.hooked(r)
	if err == nil && !h.hook.Enabled {
		err = conflict("The audit log webhook is not enabled")
	}
	var id string
	if err == nil {
		e := audit.Event{Method: audit.Unknown, Source: httpkit.SourceOf(r), Request: r.URL.Path, UserAgent: r.UserAgent(), Portal: a.of(r), Trace: traceOf(r)}
		if a.own {
			e.Administration = &audit.Administration{Class: audit.Trial, Actor: httpkit.CallerOf(r).ID(), API: nameOf}
		}
		id, err = a.Accounts.Test(r.Context(), e)
	}
	if err != nil {
		a.fail(w, r, tooMany(w, err), portals)
		return
	}
	a.answer(w, r, http.StatusAccepted, testEvent{id})
}

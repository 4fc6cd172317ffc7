package cloudapi

import (
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

func (a *API) webhookEndpoints() []httpkit.Endpoint {
	const pattern, job = pathOf + "/audit-log-webhook", pathOf + "/audit-log-replay-job"
	const hook, replay = "audit_log_webhook", "audit_log_replay_job"
	return []httpkit.Endpoint{
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: pattern, Auth: access.Read, Summary: "Read the webhook of a portal", Handler: a.readWebhook}, "", http.StatusOK, hook),
		does(httpkit.Endpoint{Method: http.MethodPatch, Pattern: pattern, Auth: access.Write, Summary: "Make or change the webhook of a portal", Handler: a.patchWebhook}, hook, http.StatusOK, hook),
		does(httpkit.Endpoint{Method: http.MethodDelete, Pattern: pattern, Auth: access.Write, Summary: "Empty the webhook of a portal", Handler: a.removeWebhook}, "", http.StatusNoContent, ""),
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: pattern + "/status", Auth: access.Read, Summary: "Read how the webhook of a portal does", Handler: a.readStatus}, "", http.StatusOK, hook+"_status"),
		also(does(httpkit.Endpoint{Method: http.MethodPost, Pattern: pattern + "/test", Auth: access.Write, Summary: "Send a marked event to the webhook of a portal", Handler: a.testWebhook}, "", http.StatusAccepted, hook+"_test"), http.StatusTooManyRequests),
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: job, Auth: access.Read, Summary: "Read the last replay job of a portal", Handler: a.readReplay}, "", http.StatusOK, replay),
		does(httpkit.Endpoint{Method: http.MethodPut, Pattern: job, Auth: access.Write, Summary: "Deliver kept events of a portal once more", Handler: a.putReplay}, replay+"_request", http.StatusAccepted, replay),
	}
}

// keyEndpoint shows the keys that sign events, in each part of the API.
func (a *API) keyEndpoint() httpkit.Endpoint {
	return does(httpkit.Endpoint{Method: http.MethodGet, Pattern: base + "/audit-log-webhook/jwks.json", Auth: access.Open, Summary: "Read the keys that verify the signatures of audit events", Handler: a.readKeys}, "", http.StatusOK, "jwks")
}

// hooked is a portal's webhook and all that is known of it.
type hooked struct {
	hook     cloud.Webhook
	progress cloud.Delivery
}

// hooked reads the webhook of the portal that a path names.
func (a *API) hooked(r *http.Request) (h hooked, err error) {
	err = a.Store.View(r.Context(), func(reader store.Reader) error {
		h, err = hookedIn(reader, portalID(r))
		return err
	})
	httpkit.EntryOf(r.Context()).Name = portalID(r)
	return h, err
}

func hookedIn(reader store.Reader, id string) (h hooked, err error) {
	if _, err = portalIn(reader, id); err != nil {
		return h, err
	}
	if err = spec(reader, cloud.Webhooks, id, &h.hook); err == nil {
		err = spec(reader, cloud.Deliveries, id, &h.progress)
	}
	return h, err
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

func (a *API) readWebhook(w http.ResponseWriter, r *http.Request) {
	h, err := a.hooked(r)
	if err != nil {
		a.fail(w, r, err, portals)
		return
	}
	a.answer(w, r, http.StatusOK, recordOf(h.hook))
}

// patchWebhook changes the webhook of a portal, or makes it.
func (a *API) patchWebhook(w http.ResponseWriter, r *http.Request) {
	_, err := a.hooked(r)
	var given webhookRecord
	if err == nil {
		err = webhookForm.fill(a, w, r, &given)
	}
	var h hooked
	if err == nil {
		_, err = a.Gate.Write(r.Context(), model.Config, func(tx store.Tx) error {
			if h, err = hookedIn(tx, portalID(r)); err != nil {
				return err
			}
			was := h.hook
			if err := given.apply(tx, &h.hook); err != nil || h.hook == was {
				return err
			}
			return delivery.Lead(tx, portalID(r), h.hook)
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

func (a *API) removeWebhook(w http.ResponseWriter, r *http.Request) {
	_, err := a.Gate.Write(r.Context(), model.Config, func(tx store.Tx) error {
		if _, err := portalIn(tx, portalID(r)); err != nil {
			return err
		}
		return delivery.Forget(tx, portalID(r))
	})
	if err != nil {
		a.fail(w, r, err, portals)
		return
	}
	w.WriteHeader(http.StatusNoContent)
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

func (a *API) readStatus(w http.ResponseWriter, r *http.Request) {
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
	a.answer(w, r, http.StatusOK, audit.Keys{Keys: []audit.Key{a.Signer.Key()}})
}

// testEvent is the answer to a test.
type testEvent struct {
	ID string `json:"event_id"`
}

// testWebhook sends an event that says that it is a test, on the way of all others.
func (a *API) testWebhook(w http.ResponseWriter, r *http.Request) {
	h, err := a.hooked(r)
	if err == nil && !h.hook.Enabled {
		err = conflict("The audit log webhook is not enabled")
	}
	var id string
	if err == nil {
		id, err = a.Accounts.Test(r.Context(), audit.Event{
			Method: audit.Unknown, Source: a.address(r), Request: r.URL.Path, UserAgent: r.UserAgent(), Portal: portalID(r), Trace: traceOf(r),
		})
	}
	if err != nil {
		a.fail(w, r, tooMany(w, err), portals)
		return
	}
	a.answer(w, r, http.StatusAccepted, testEvent{id})
}

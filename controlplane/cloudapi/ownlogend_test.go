package cloudapi

import (
	"fmt"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestOwnEndIsLedNowhereElse: while the end of the log waits, its destination is not changed, and who may
// change destinations changes others. Once the log is on, that and another destination are possible again.
func TestOwnEndIsLedNowhereElse(t *testing.T) {
	f := setup(t)
	a, b := f.created("a"), f.created("b")
	f.must(200, "PATCH", ownHook, fmt.Sprintf(`{"audit_log_destination_id":%q}`, a))
	f.tried(cloud.ControlPlaneLog, 0, false, "")
	reached := func(event uint64) {
		t.Helper()
		_, err := f.api.Gate.As(model.System("test")).Write(t.Context(), model.Config, func(tx store.Tx) error {
			name := func(n uint64) string { return cloud.EventName(cloud.ControlPlaneLog, n) }
			_, err := tx.Update(&model.Resource{Kind: cloud.Deliveries, Name: cloud.ControlPlaneLog, Spec: &cloud.Delivery{Destination: a, Cursor: name(event), Final: name(9)}}, 0)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	reached(8)
	const waits = "409 Conflict/The last events of the audit log are not delivered to this destination yet; switch the log on to change it, or wait: they are given up after seven days"
	for _, body := range []string{`{"endpoint":"https://elsewhere.example/"}`, `{"authorization":"other"}`, `{"skip_ssl_verification":true}`} {
		if got := told(f.do("PATCH", destinations+"/"+a, body)); got != waits {
			t.Errorf("%s: %s", body, got)
		}
	}
	if got := told(f.as("eddie", "PATCH", destinations+"/"+a, `{"endpoint":"https://elsewhere.example/"}`)); got != "403 Forbidden/You do not have permission to perform this action" {
		t.Error(got)
	}
	f.must(200, "PATCH", destinations+"/"+b, `{"endpoint":"https://elsewhere.example/"}`)
	f.must(200, "PATCH", ownHook, `{"enabled":true}`)
	f.must(200, "PATCH", destinations+"/"+a, `{"endpoint":"https://mended.example/"}`)
	f.is(f.must(200, "PATCH", ownHook, fmt.Sprintf(`{"audit_log_destination_id":%q}`, b)), "map[audit_log_destination_id:"+b+" enabled:true]")
	err := f.api.Store.View(t.Context(), func(r store.Reader) error {
		res, err := r.Get(cloud.Deliveries, "", cloud.ControlPlaneLog)
		if err == nil && res.Spec.(*cloud.Delivery).Cursor != cloud.EventName(cloud.ControlPlaneLog, 8) {
			t.Errorf("the new destination gets what comes after %+v", res.Spec)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	f.must(200, "PATCH", ownHook, fmt.Sprintf(`{"audit_log_destination_id":%q}`, a))
	f.must(200, "PATCH", ownHook, `{"enabled":false}`)
	reached(9)
	f.must(200, "PATCH", destinations+"/"+a, `{"endpoint":"https://elsewhere.example/"}`)
}

package gatewayapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestDiskFull: writes answer 507 with the reason, reads go on, and a refused write leaves
// nothing behind.
func TestDiskFull(t *testing.T) {
	var disk *storetest.Full
	f := setupWith(t, func(o *gatewayapi.Options) {
		disk = &storetest.Full{Store: o.Store}
		o.Store, o.Gate = disk, admit.New(disk, newRevoker(), gateway.Kinds(), o.Now)
	})
	f.must("PUT", "/consumers/bob", `{"custom_id":"b"}`)
	disk.IsFull.Store(true)
	for _, r := range [][3]string{
		{"POST", "/consumers", `{"username":"eve"}`}, {"PUT", "/consumers/eve", `{}`}, {"PATCH", "/consumers/bob", `{"custom_id":"x"}`}, {"DELETE", "/consumers/bob", ""},
	} {
		w := f.do(r[0], r[1], r[2])
		if w.Code != http.StatusInsufficientStorage || !strings.Contains(w.Body.String(), "is full") || strings.Contains(w.Body.String(), storetest.ErrDisk.Error()) {
			t.Errorf("%s %s: %d %s", r[0], r[1], w.Code, w.Body)
		}
	}
	if w := f.do("GET", "/consumers/bob", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"custom_id":"b"`) {
		t.Errorf("a read: %d %s", w.Code, w.Body)
	}
	if w := f.do("GET", "/consumers/eve", ""); w.Code != http.StatusNotFound {
		t.Errorf("what was refused is there: %d", w.Code)
	}
	disk.IsFull.Store(false)
	f.must("PUT", "/consumers/eve", `{}`)
}

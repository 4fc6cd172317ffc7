package meshapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestDiskFull: writes answer 507 with the reason, and reads go on.
func TestDiskFull(t *testing.T) {
	disk := &storetest.Full{}
	a := seeded(t, func(o *Options) {
		disk.Store = o.Store
		o.Store, o.Writer = disk, admit.New(disk, &admittest.Revoker{}, o.Kinds, (&clock{now: start}).read).As(model.System("test"))
	})
	disk.IsFull.Store(true)
	const detail = "nothing was changed: the disk that holds the database of the control plane is full. Writes work again as soon as there is space"
	if want := store.DiskFull.Fault(nil); !strings.HasPrefix(want.Error(), detail) {
		t.Fatal(want)
	}
	check(t, request(a.handler, "PUT", "/meshes/m/tickets/u", goodTicket("u"), "Content-Type", mediaJSON), expected(http.StatusInsufficientStorage, "Could not create a resource", detail))
	check(t, request(a.handler, "DELETE", "/meshes/m/tickets/t", ""), expected(http.StatusInsufficientStorage, "Could not delete a resource", detail))
	if rec := request(a.handler, "GET", "/meshes/m/tickets/t", ""); rec.Code != http.StatusOK {
		t.Errorf("a read: %d", rec.Code)
	}
	disk.IsFull.Store(false)
	a.put(t, "/meshes/m/tickets/u", goodTicket("u"))
}

package memstore_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

func TestStatusConformance(t *testing.T) {
	storetest.RunStatus(t, func(*testing.T) (store.Status, func() store.Status) { return memstore.NewStatus(), nil })
}

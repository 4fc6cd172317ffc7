package cloudapi

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestHashAfterARestore: two histories that go on from one backup, with one number for two changes, have
// two hashes.
func TestHashAfterARestore(t *testing.T) {
	history := func(at time.Time) (hash string, revision uint64) {
		f := setupPlanesIn(t, memstore.Open(memstore.Options{Now: func() time.Time { return at }}))
		if status, body := f.raw("admin", "POST", entities(cloud.DefaultID)+"/services", `{"host":"h.test"}`); status != 201 {
			t.Fatal(status, body)
		}
		return f.expects(200, "GET", controlPlanes+"/"+cloud.DefaultID+"/expected-config-hash", "")["expected_hash"].(string), f.store.Revision()
	}
	one, first := history(epoch)
	same, _ := history(epoch)
	other, second := history(epoch.Add(time.Hour))
	if first != second || one != same {
		t.Fatalf("the histories are not alike: revisions %d and %d, hashes %s and %s", first, second, one, same)
	}
	if one == other {
		t.Errorf("both have the hash %s", one)
	}
}

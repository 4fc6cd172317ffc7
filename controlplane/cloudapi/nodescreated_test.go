package cloudapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/insight"
)

// TestNodesWereCreatedOnce: a node that comes back is as old as it was, and was seen now, or when it left.
func TestNodesWereCreatedOnce(t *testing.T) {
	f := setupPlanes(t)
	id := f.plane("aa", cloud.TypeHybrid)
	f.fleet.connects(id)
	first, since := epoch.Add(-time.Hour), epoch.Add(-time.Minute)
	n := &f.fleet.gateways[id][0]
	n.First, n.Since = &first, &since
	for state, seen := range map[string]time.Time{insight.Connected: epoch, insight.Away: since} {
		n.State = state
		item := f.expects(http.StatusOK, http.MethodGet, controlPlanes+"/"+id+"/nodes", "")["items"].([]any)[0].(map[string]any)
		if item["created_at"] != float64(first.Unix()) || item["updated_at"] != float64(seen.Unix()) || item["last_ping"] != float64(seen.Unix()) {
			t.Errorf("%s: %v", state, item)
		}
	}
}

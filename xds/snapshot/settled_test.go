package snapshot_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// TestSettledAreThoseThatNobodyWaitsFor: a node is settled if it has a set and a stream, has
// answered, and has no refusal that the filter selects. A node whose stream has ended is not
// settled, although it keeps its set until its owner drops it.
func TestSettledAreThoseThatNobodyWaitsFor(t *testing.T) {
	st := snapshot.New()
	a, b := st.Subscribe("m.a"), st.Subscribe("m.b")
	st.Subscribe("m.bare") // has no set
	sets := func(body string) map[string]*resource.Set {
		set := resource.NewSet([]*resource.Resource{resource.New(resource.Cluster, "c", []byte(body))}, nil)
		return map[string]*resource.Set{"m.a": set, "m.b": set, "m.away": set}
	}
	secrets := func(r snapshot.Rejection) bool { return r.Type == resource.Secret }
	expect := func(what string, want ...string) {
		t.Helper()
		got := st.Settled(2, []string{"mesh/m"}, secrets)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	publishM(st, sets("1"), 1)
	a.Confirm(a.State())
	b.Confirm(b.State())
	expect("before the revision is shown")
	publishM(st, sets("2"), 2)
	expect("before anybody has answered")
	a.Confirm(a.State())
	expect("one has answered", "m.a")
	b.Confirm(b.State())
	b.Reject([]snapshot.Rejection{{Type: resource.Secret, Revision: 2}})
	expect("one refuses a secret", "m.a")
	b.Reject([]snapshot.Rejection{{Type: resource.Cluster, Revision: 2}})
	expect("one refuses something else", "m.a", "m.b")
	a.Close()
	expect("the stream of one has ended", "m.b")
	a = st.Subscribe("m.a")
	expect("it is back", "m.b")
	a.Confirm(a.State())
	expect("it has answered", "m.a", "m.b")
}

package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

type outcome struct {
	Rejected []snapshot.Rejection
	Err      error
}

// waiting starts a wait for the nodes of mesh m.
func waiting(ctx context.Context, st *snapshot.Store, rev uint64, blocks func(snapshot.Rejection) bool) <-chan outcome {
	out := make(chan outcome, 1)
	go func() {
		r, err := st.WaitNodes(ctx, rev, []string{"mesh/m"}, blocks)
		out <- outcome{r, err}
	}()
	return out
}

func publishM(st *snapshot.Store, sets map[string]*resource.Set, rev uint64) {
	st.Announce(snapshot.Publication{Scope: "mesh/m", Sets: sets, Revision: rev})
}

func over(t *testing.T, c <-chan outcome) outcome {
	t.Helper()
	select {
	case o := <-c:
		return o
	case <-time.After(time.Minute):
		t.Fatal("the wait is not over")
		return outcome{}
	}
}

// still fails the test unless a call has to wait: one whose context has ended
// tells so at once.
func still(t *testing.T, st *snapshot.Store, rev uint64, blocks func(snapshot.Rejection) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := over(t, waiting(ctx, st, rev, blocks)); !errors.Is(o.Err, context.Canceled) {
		t.Fatalf("the wait is over: %+v", o)
	}
}

func TestWaitNodesWaitsForThePickedOnes(t *testing.T) {
	st := snapshot.New()
	a, b := st.Subscribe("m.a"), st.Subscribe("m.b")
	st.Subscribe("other.c") // never answers
	st.Subscribe("m.bare")  // has no set
	all := func(body string, rev uint64) {
		st.Announce(
			snapshot.Publication{Scope: "mesh/m", Sets: map[string]*resource.Set{"m.a": set(body), "m.b": set(body), "m.away": set(body)}, Revision: rev},
			snapshot.Publication{Scope: "mesh/other", Sets: map[string]*resource.Set{"other.c": set(body)}, Revision: rev},
		)
	}
	all("1", 1)
	c := waiting(t.Context(), st, 2, nil)
	a.Confirm(a.State())
	b.Confirm(b.State())
	still(t, st, 2, nil) // not published yet
	all("2", 2)
	a.Confirm(a.State())
	still(t, st, 2, nil)
	refusal := snapshot.Rejection{Error: "no", Type: resource.Route, Revision: 2}
	b.Reject([]snapshot.Rejection{refusal, {Error: "later", Revision: 3}})
	still(t, st, 2, nil) // answered in part
	b.Confirm(b.State())
	refusal.Name = "m.b"
	if d := cmp.Diff(outcome{Rejected: []snapshot.Rejection{refusal}}, over(t, c)); d != "" {
		t.Fatal(d)
	}
}

func TestWaitNodesHoldsForRefusalsThatBlock(t *testing.T) {
	st := snapshot.New()
	a := st.Subscribe("m.a")
	publishM(st, map[string]*resource.Set{"m.a": set("1")}, 1)
	secrets := func(r snapshot.Rejection) bool { return r.Type == resource.Secret }
	a.Reject([]snapshot.Rejection{{Error: "bad", Type: resource.Secret, Revision: 1}})
	c := waiting(t.Context(), st, 1, secrets)
	a.Confirm(a.State())
	still(t, st, 1, secrets)
	other := snapshot.Rejection{Name: "m.a", Error: "bad", Type: resource.Route, Revision: 1}
	a.Reject([]snapshot.Rejection{other})
	if d := cmp.Diff(outcome{Rejected: []snapshot.Rejection{other}}, over(t, c)); d != "" {
		t.Fatal(d)
	}
}

// TestWaitRefusalsIsForThoseWhoHaveAnswered: who says nothing holds up nobody, who refuses
// does, also of those who had said nothing when the wait began.
func TestWaitRefusalsIsForThoseWhoHaveAnswered(t *testing.T) {
	st := snapshot.New()
	a := st.Subscribe("m.a")
	st.Subscribe("m.silent")
	publishM(st, map[string]*resource.Set{"m.a": set("1"), "m.silent": set("1")}, 1)
	secrets := func(r snapshot.Rejection) bool { return r.Type == resource.Secret }
	wait := func() <-chan error {
		c := make(chan error, 1)
		go func() {
			_, err := st.WaitRefusals(t.Context(), 1, []string{"mesh/m"}, secrets)
			c <- err
		}()
		return c
	}
	if err := <-wait(); err != nil {
		t.Fatal(err)
	}
	a.Reject([]snapshot.Rejection{{Error: "bad", Type: resource.Secret, Revision: 1}})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := st.WaitRefusals(ended, 1, []string{"mesh/m"}, secrets); !errors.Is(err, context.Canceled) {
		t.Fatalf("a refusal is not waited for: %v", err)
	}
	c := wait()
	a.Reject(nil)
	if err := <-c; err != nil {
		t.Fatal(err)
	}
}

func TestWaitNodesEndsWithNodesThatGoAndWithItsContext(t *testing.T) {
	for name, leave := range map[string]func(*snapshot.Store, *snapshot.Subscription){
		"closed":  func(_ *snapshot.Store, a *snapshot.Subscription) { a.Close() },
		"dropped": func(st *snapshot.Store, _ *snapshot.Subscription) { st.Drop("m.a") },
	} {
		t.Run(name, func(t *testing.T) {
			st := snapshot.New()
			a := st.Subscribe("m.a")
			publishM(st, map[string]*resource.Set{"m.a": set("1")}, 1)
			c := waiting(t.Context(), st, 1, nil)
			leave(st, a)
			if o := over(t, c); o.Err != nil || o.Rejected != nil {
				t.Fatalf("%+v", o)
			}
		})
	}
	st := snapshot.New()
	st.Subscribe("m.a")
	publishM(st, map[string]*resource.Set{"m.a": set("1")}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	c := waiting(ctx, st, 1, nil)
	cancel()
	if o := over(t, c); !errors.Is(o.Err, context.Canceled) {
		t.Fatalf("%+v", o)
	}
}

// BenchmarkConfirmWhileWaitingNodes is what one confirmation costs while ten
// calls wait for 1,000 nodes.
func BenchmarkConfirmWhileWaitingNodes(b *testing.B) {
	st := snapshot.New()
	batch := map[string]*resource.Set{}
	for i := range 1000 {
		id := fmt.Sprintf("m.%d", i)
		st.Subscribe(id)
		batch[id] = set("1")
	}
	publishM(st, batch, 1)
	a := st.Subscribe("m.0")
	ctx, cancel := context.WithCancel(b.Context())
	var waits []<-chan outcome
	for range 10 {
		waits = append(waits, waiting(ctx, st, 1, nil))
	}
	b.ReportAllocs()
	for i := uint64(2); b.Loop(); i++ {
		publishM(st, map[string]*resource.Set{"m.0": set(fmt.Sprint(i % 2))}, i)
		a.Confirm(a.State())
	}
	cancel()
	for _, c := range waits {
		<-c
	}
}

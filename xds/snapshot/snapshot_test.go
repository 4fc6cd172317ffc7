package snapshot_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

func set(body string) *resource.Set {
	return resource.NewSet([]*resource.Resource{resource.New(resource.Cluster, "c", []byte(body))}, nil)
}

func awake(s *snapshot.Subscription) bool {
	select {
	case <-s.Wake():
		return true
	default:
		return false
	}
}

func TestOnlyChangedNodesWake(t *testing.T) {
	st := snapshot.New()
	a, b := st.Subscribe("a"), st.Subscribe("b")
	awake(a)
	awake(b)
	st.Publish(map[string]*resource.Set{"a": set("1"), "b": set("1")}, 1)
	if !awake(a) || !awake(b) {
		t.Fatal("a first set must wake")
	}
	st.Publish(map[string]*resource.Set{"a": set("2"), "b": set("1")}, 2)
	st.Publish(map[string]*resource.Set{"a": set("3")}, 3)
	if !awake(a) || awake(a) || awake(b) {
		t.Fatal("changes coalesce, and equal bytes do not wake")
	}
	a.Confirm(a.State())
	if p := st.Progress(3); !cmp.Equal(p.Acknowledged, []string{"a"}) || !cmp.Equal(p.Waiting, []string{"b"}) {
		t.Fatalf("progress %+v", p)
	}
	b.Confirm(b.State())
	if p := st.Progress(3); !p.Done() || len(p.Acknowledged) != 2 || p.Published != 3 {
		t.Fatalf("progress %+v", p)
	}
	a.Reject([]snapshot.Rejection{{Error: "no", Revision: 3}})
	p := st.Progress(3)
	if d := cmp.Diff([]snapshot.Rejection{{Name: "a", Error: "no", Revision: 3}}, p.Rejected); d != "" || len(p.Acknowledged) != 1 {
		t.Fatalf("progress %+v %s", p, d)
	}
	if p := st.Progress(2); len(p.Rejected) != 0 {
		t.Fatalf("an older revision was not refused: %+v", p)
	}
}

func TestOldReadingConfirmsNothingNewer(t *testing.T) {
	st := snapshot.New()
	a := st.Subscribe("a")
	st.Publish(map[string]*resource.Set{"a": set("1")}, 1)
	old := a.State()
	st.Publish(map[string]*resource.Set{"a": set("2")}, 1) // the same revision again
	a.Confirm(old)
	if p := st.Progress(1); len(p.Waiting) != 1 {
		t.Fatalf("progress %+v", p)
	}
	a.Confirm(a.State())
	if p := st.Progress(1); len(p.Waiting) != 0 {
		t.Fatalf("progress %+v", p)
	}
	for rev := uint64(2); rev < 500; rev++ {
		st.Publish(map[string]*resource.Set{"a": set(string(rune(rev)))}, rev)
	}
	if p := st.Progress(3); len(p.Waiting) != 1 {
		t.Fatalf("a forgotten change counts as outstanding: %+v", p)
	}
}

func TestWaitIsWokenAndBounded(t *testing.T) {
	st := snapshot.New()
	a := st.Subscribe("a")
	st.Publish(map[string]*resource.Set{"a": set("1")}, 1)
	done := make(chan snapshot.Progress)
	limited, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	go func() { done <- st.Wait(limited, 2) }()
	a.Confirm(a.State())
	st.Publish(nil, 2) // no bytes change: only the revision advances
	if p := <-done; !p.Done() || len(p.Acknowledged) != 1 {
		t.Fatalf("progress %+v", p)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if p := st.Wait(ctx, 9); p.Done() {
		t.Fatalf("progress %+v", p)
	}
	a.Close()
	st.Drop("a")
	if st.Get("a") != nil || len(st.Nodes()) != 0 {
		t.Fatal("a dropped node is forgotten")
	}
}

package host

import (
	"sync"
	"testing"
)

// TestHandlesAreNotMistaken: a handle that was given back names nothing, even if its slot is
// in use again.
func TestHandlesAreNotMistaken(t *testing.T) {
	var handles table[int]
	values := [3]int{1, 2, 3}
	first, err := handles.put(&values[0])
	if err != nil || first == 0 {
		t.Fatal(first, err)
	}
	old := map[uint32]bool{}
	for i := range maxUses - 1 {
		if handles.get(first) == nil || handles.drop(first) == nil {
			t.Fatalf("use %d: handle %#x is not good", i, first)
		}
		old[first] = true
		if handles.get(first) != nil || handles.drop(first) != nil {
			t.Fatalf("use %d: handle %#x is still good", i, first)
		}
		if first, err = handles.put(&values[i%len(values)]); err != nil {
			t.Fatal(err)
		}
		if old[first] {
			t.Fatalf("use %d: handle %#x again", i, first)
		}
	}
	for h := range old {
		if handles.get(h) != nil {
			t.Fatalf("handle %#x names what came later", h)
		}
	}
}

// TestStaleHandlesBesideWriters: readers with handles that were given back see nothing while
// other values come and go.
func TestStaleHandlesBesideWriters(t *testing.T) {
	var handles table[uint32]
	stale, err := handles.put(new(uint32))
	if err != nil {
		t.Fatal(err)
	}
	handles.drop(stale)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if v := handles.get(stale); v != nil {
					t.Errorf("found %d", *v)
					return
				}
			}
		})
	}
	for i := range 2000 {
		v := uint32(i)
		h, err := handles.put(&v)
		if err != nil {
			t.Fatal(err)
		}
		if got := handles.get(h); got != &v {
			t.Fatalf("handle %#x names something else", h)
		}
		handles.drop(h)
	}
	close(stop)
	wg.Wait()
}

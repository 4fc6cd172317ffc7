package policy

import (
	"runtime"
	"testing"

	"github.com/meshgate/meshgate/controlplane/view"
)

func TestInterner(t *testing.T) {
	var i Interner
	a, b := &view.Policy{Name: "a"}, &view.Policy{Name: "b"}
	if got := i.Selection(nil, 1); got != nil {
		t.Errorf("no policies make %v", got)
	}
	buffer := []*view.Policy{a, b}
	ab := i.Selection(buffer, nil)
	buffer[0], buffer[1] = b, a
	if ab.Policies[0] != a {
		t.Error("the selection keeps the caller's slice")
	}
	if i.Selection([]*view.Policy{a, b}, nil) != ab {
		t.Error("equal selections are two")
	}
	for name, other := range map[string]*Selection{
		"order": i.Selection(buffer, nil), "facts": i.Selection([]*view.Policy{a, b}, "x"),
		"fewer": i.Selection([]*view.Policy{a}, nil), "equal content": i.Selection([]*view.Policy{{Name: "a"}, b}, nil),
	} {
		if other == ab {
			t.Errorf("%s: different selections are one", name)
		}
	}
	runtime.KeepAlive(ab)
}

func TestInternerDoesNotAllocateOnAHit(t *testing.T) {
	var i Interner
	a, facts := &view.Policy{}, any("facts")
	held := i.Selection([]*view.Policy{a}, facts)
	if n := testing.AllocsPerRun(100, func() {
		one := [1]*view.Policy{a}
		if i.Selection(one[:], facts) != held {
			t.Error("missed")
		}
	}); n != 0 {
		t.Errorf("a hit allocates %v times", n)
	}
}

// TestInternerForgets keeps one selection of many and looks at what remains.
func TestInternerForgets(t *testing.T) {
	var i Interner
	kept := &view.Policy{}
	held := i.Selection([]*view.Policy{kept}, nil)
	for n := range 10 * minLimit {
		if i.entries >= i.limit {
			runtime.GC()
		}
		i.Selection([]*view.Policy{{}}, n)
	}
	if i.entries > 2*minLimit || len(i.buckets) > i.entries {
		t.Errorf("%d entries in %d buckets after %d selections", i.entries, len(i.buckets), 10*minLimit)
	}
	if i.Selection([]*view.Policy{kept}, nil) != held {
		t.Error("a selection in use was forgotten")
	}
}

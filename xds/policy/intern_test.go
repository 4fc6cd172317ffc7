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

// TestInternerForgets keeps one of many selections and checks how many entries remain.
func TestInternerForgets(t *testing.T) {
	var i Interner
	kept := &view.Policy{}
	held := i.Selection([]*view.Policy{kept}, nil)
	for n := range 10 * minLimit {
		if i.selections.entries >= i.selections.limit {
			runtime.GC()
		}
		i.Selection([]*view.Policy{{}}, n)
	}
	if i.selections.entries > 2*minLimit || len(i.selections.buckets) > i.selections.entries {
		t.Errorf("%d entries in %d buckets after %d selections", i.selections.entries, len(i.selections.buckets), 10*minLimit)
	}
	if i.Selection([]*view.Policy{kept}, nil) != held {
		t.Error("a selection in use was forgotten")
	}
}

// TestChoices: equal lists are one pointer, whatever is missing at their end, and a lookup
// allocates nothing.
func TestChoices(t *testing.T) {
	var i Interner
	a, b := i.Selection([]*view.Policy{{Name: "a"}}, nil), i.Selection([]*view.Policy{{Name: "b"}}, nil)
	if c := i.Choices([]*Selection{nil, nil}); c != nil || c.At(1) != nil {
		t.Errorf("nothing chosen makes %v", c)
	}
	buffer := []*Selection{a, nil, b, nil}
	held := i.Choices(buffer)
	if held.At(0) != a || held.At(1) != nil || held.At(2) != b || held.At(3) != nil || held.At(7) != nil {
		t.Error("the choices are others")
	}
	if n := testing.AllocsPerRun(100, func() {
		if i.Choices(buffer[:3]) != held {
			t.Error("equal choices are two")
		}
	}); n != 0 {
		t.Errorf("a hit allocates %v times", n)
	}
	buffer[0] = nil
	if i.Choices(buffer) == held || held.At(0) != a {
		t.Error("different choices are one")
	}
}

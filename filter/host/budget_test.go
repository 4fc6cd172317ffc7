package host

import "testing"

// A connection has its budget, the process has one for all, and what is given back is there
// for others. Giving back twice gives nothing.
func TestBudget(t *testing.T) {
	var b Budget
	hold := func(connection uint64, bytes int) (*Held, bool) {
		h := &Held{}
		h.Open(&b, connection)
		return h, h.More(bytes)
	}
	full, ok := hold(1, BodyBudgetConnection)
	if !ok {
		t.Fatal("the budget of a connection is refused")
	}
	over, ok := hold(1, 1)
	if ok {
		t.Error("a connection goes over its budget")
	}
	over.Release()
	over.Release()
	others := []*Held{full}
	for c := uint64(2); len(others) < BodyBudget/BodyBudgetConnection; c++ {
		h, ok := hold(c, BodyBudgetConnection)
		if !ok {
			t.Fatalf("connection %d is refused", c)
		}
		others = append(others, h)
	}
	if over, ok = hold(100, 1); ok {
		t.Error("the process goes over its budget")
	}
	over.Release()
	full.Release()
	if again, ok := hold(1, BodyBudgetConnection); !ok {
		t.Error("what was given back is not there")
	} else {
		again.Release()
	}
	for _, h := range others {
		h.Release()
	}
	(&Held{}).Release()
	if n := b.held.Load(); n != 0 {
		t.Errorf("%d bytes are held by nobody", n)
	}
}

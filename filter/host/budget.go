package host

import "sync/atomic"

// Bodies that are held back for decisions, in bytes: those of the process, and those of one
// connection.
const (
	BodyBudget           = 64 << 20
	BodyBudgetConnection = 8 << 20
)

// connections share counters if there are more of them, which only makes those fill sooner.
const connections = 4096

// Budget counts the bodies that are held back. Who has shown no credential yet decides how
// much there is, so there must be an end to it that leaves memory for everybody else.
type Budget struct {
	held atomic.Int64
	by   [connections]atomic.Int64
}

// Held is what one stream holds of a budget. The zero value holds nothing.
type Held struct {
	budget *Budget
	by     *atomic.Int64
	bytes  atomic.Int64
}

// Open has a stream of a connection hold bytes of a budget from now on.
func (h *Held) Open(b *Budget, connection uint64) {
	h.budget, h.by = b, &b.by[connection%connections]
}

// More counts bytes that have arrived. It is false if they are over the budget: the stream is
// to be refused, and they count until [Held.Release].
func (h *Held) More(bytes int) bool {
	n := int64(bytes)
	h.bytes.Add(n)
	all, own := h.budget.held.Add(n), h.by.Add(n)
	return all <= BodyBudget && own <= BodyBudgetConnection
}

// Release gives back what is held. It may be called from any goroutine, and again.
func (h *Held) Release() {
	if n := h.bytes.Swap(0); n != 0 {
		h.budget.held.Add(-n)
		h.by.Add(-n)
	}
}

// Bodies is the budget of the process.
func (h *Host) Bodies() *Budget { return &h.bodies }

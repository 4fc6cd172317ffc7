package tokencache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/meshgate/meshgate/filter/redisconn"
)

// visit records the servers of a cluster that one look-up met. They are not known in
// advance: keys may lie on any server, and a server may redirect to another. Each server
// counts once, by its last outcome.
type visit struct {
	of *nodes

	mu  sync.Mutex
	met []met
	// spoke says that a server has answered, or was not one of those vouched for. Then the
	// look-up has not met mere silence.
	spoke bool
}

// met is one server in a visit.
type met struct {
	address string
	leave   permit    // of the first meeting
	refused error     // set if the server is left alone
	entered time.Time // when the server was last asked
	asked   metOutcome
	err     error // of metFailed
}

// metOutcome is the result of asking a server.
type metOutcome uint8

const (
	// metNothing: nothing is known about it.
	metNothing metOutcome = iota
	metAnswered
	metFailed
)

// visitKey is the context key of the visit that a read belongs to.
type visitKey struct{}

func (n *nodes) visit() *visit { return &visit{of: n} }

func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// meets returns the entry of a server in the visit. The caller holds mu.
func (v *visit) meets(address string) *met {
	i := slices.IndexFunc(v.met, func(m met) bool { return m.address == address })
	if i < 0 {
		i = len(v.met)
		v.met = append(v.met, met{address: address})
		v.met[i].leave, v.met[i].refused = v.of.allow(address)
	}
	return &v.met[i]
}

// enter returns the reason why a server may not be asked, or nil.
func (v *visit) enter(address string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.meets(address)
	m.entered = time.Now()
	v.spoke = v.spoke || errors.Is(m.refused, redisconn.ErrNotVouched)
	return m.refused
}

// leave records the outcome of a server that was entered. A timeout counts only if the
// server had its share of the time, because others may have used up the time.
func (v *visit) leave(address string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.spoke = v.spoke || err == nil || errors.Is(err, redisconn.ErrNotVouched)
	m := v.meets(address)
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && timeout.Timeout() && time.Since(m.entered) < v.of.share {
		return
	}
	if m.asked, m.err = metAnswered, err; err != nil {
		m.asked = metFailed
	}
}

// heard reports whether any server has spoken.
func (v *visit) heard() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.spoke
}

// end reports every server, and calls changed with the changes to log. over says that the
// time of the look-up ended. Servers that have not answered had no chance to answer then,
// and do not count as failed.
func (v *visit) end(over bool, changed func(nodeChange, *met)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.met {
		m, what, reported := &v.met[i], nodeAsBefore, true
		switch {
		case m.asked == metAnswered:
			what = v.of.hasAnswered(m.address, m.leave)
		case m.asked == metFailed && !over:
			what = v.of.hasFailed(m.address, m.leave, m.err)
		default:
			reported = false
		}
		if m.leave.probe != nil {
			v.of.endProbe(m.address, m.leave, reported)
		}
		changed(what, m)
	}
}

package tokencache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/meshgate/meshgate/filter/redisconn"
)

// visit is what one look-up met of the servers of a cluster. Nobody knows before which
// ones these are: keys lie anywhere, and a server may name another one. Each of them
// counts once, by what it came to last.
type visit struct {
	of *nodes

	mu  sync.Mutex
	met []met
	// spoke says that a server has answered, or was another one than those vouched for.
	// Who has heard anything has not heard that nobody is there.
	spoke bool
}

// met is one server in a visit.
type met struct {
	address string
	began   time.Duration // monotonic time at which it was met first
	probe   bool
	refused error     // it is left alone
	entered time.Time // when it was asked last
	asked   metOutcome
	err     error // of metFailed
}

// metOutcome is what asking a server came to.
type metOutcome uint8

const (
	// metNothing: nothing is known of it.
	metNothing metOutcome = iota
	metAnswered
	metFailed
)

// visitKey is of the visit in the context of what is read.
type visitKey struct{}

func (n *nodes) visit() *visit { return &visit{of: n} }

func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// meets returns the server in the visit; mu is held.
func (v *visit) meets(address string) *met {
	i := slices.IndexFunc(v.met, func(m met) bool { return m.address == address })
	if i < 0 {
		i = len(v.met)
		v.met = append(v.met, met{address: address})
		v.met[i].began, v.met[i].probe, v.met[i].refused = v.of.allow(address)
	}
	return &v.met[i]
}

// enter says why a server may not be asked.
func (v *visit) enter(address string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.meets(address)
	m.entered = time.Now()
	v.spoke = v.spoke || errors.Is(m.refused, redisconn.ErrNotVouched)
	return m.refused
}

// leave notes what a server that was entered came to. One that did not answer in time
// says nothing of itself unless it had its share: others may have used up the time.
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

// heard says whether any server said anything.
func (v *visit) heard() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.spoke
}

// end reports every server, and calls changed with what there is to say. Where the time
// of the look-up itself was over, servers that have not answered had no chance to.
func (v *visit) end(over bool, changed func(nodeChange, *met)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.met {
		m, what, reported := &v.met[i], nodeAsBefore, true
		switch {
		case m.asked == metAnswered:
			what = v.of.hasAnswered(m.address, m.began)
		case m.asked == metFailed && !over:
			what = v.of.hasFailed(m.address, m.began, m.err)
		default:
			reported = false
		}
		if m.probe {
			v.of.endProbe(m.address, reported)
		}
		changed(what, m)
	}
}

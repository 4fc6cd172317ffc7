package tokencache

import (
	"sync"

	"github.com/meshgate/meshgate/filter/contract"
)

// maxHeld bounds the tokens that are remembered for Redis to be filled with.
const maxHeld = 32 << 10

// inUse are tokens whose records Redis should hold soon: those that L1 held when
// Redis lost them, or when L1 itself was emptied. Without it a Redis that was
// lost would stay empty as long as L1 answers, and be of no use in the next
// outage. The writer of the link sends them, one batch after the other.
type inUse struct {
	mu      sync.Mutex
	pending []contract.Hash
	// batch is under way with that number; a broken link puts it back.
	batch  []contract.Hash
	number uint64
	// ready wakes the writer.
	ready chan struct{}
}

// refillAfter says what is in use after a trust that was adopted: after an epoch
// that was not there before, whose Redis holds no record yet, all that L1 holds,
// which hides that nobody misses them there; else what still waits.
func (c *Cache) refillAfter(t contract.Trust) {
	if t.Epoch == 0 {
		return
	}
	c.configuring.Lock()
	isNew := t.Epoch != c.lastEpoch
	c.lastEpoch = t.Epoch
	c.configuring.Unlock()
	if isNew {
		c.holdForRefill()
		return
	}
	c.inUse.look()
}

// holdForRefill remembers what L1 holds, if there is a second level.
func (c *Cache) holdForRefill() {
	if c.config.Load().settings.Redis != nil {
		c.inUse.add(c.table.inUse(maxHeld, c.clock.Now()))
	}
}

// add puts tokens before those that wait already.
func (u *inUse) add(tokens []contract.Hash) {
	u.mu.Lock()
	defer u.mu.Unlock()
	have := make(map[contract.Hash]struct{}, len(tokens))
	for i := range tokens {
		have[tokens[i]] = struct{}{}
	}
	for _, old := range u.pending {
		if _, ok := have[old]; !ok && len(tokens) < maxHeld {
			tokens = append(tokens, old)
		}
	}
	u.pending = tokens
	u.wake()
}

// wake is called with mu held.
func (u *inUse) wake() {
	if len(u.pending) == 0 || u.batch != nil {
		return
	}
	select {
	case u.ready <- struct{}{}:
	default: // the writer will look anyway
	}
}

// look lets the writer look again after something that it waited for.
func (u *inUse) look() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wake()
}

// resume begins again on a new link.
func (u *inUse) resume() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pending = append(u.batch, u.pending...)
	u.batch = nil
	u.wake()
}

// next takes the next batch; nil if one is under way or none waits.
func (u *inUse) next() *contract.InUse {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.batch != nil || len(u.pending) == 0 {
		return nil
	}
	n := min(len(u.pending), contract.MaxInUse)
	u.batch, u.pending = u.pending[:n:n], u.pending[n:]
	u.number++
	return &contract.InUse{Number: u.number, Tokens: u.batch}
}

// refilled ends the batch of that number.
func (u *inUse) refilled(number uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.batch == nil || number != u.number {
		return
	}
	u.batch = nil
	u.wake()
}

// sendInUse sends a batch once the control plane vouches for a Redis again: until
// then it would write nothing. An acknowledgement goes first, for somebody waits
// for it.
func (s *session) sendInUse() error {
	select {
	case <-s.ackReady:
		if err := s.sendAck(); err != nil {
			return err
		}
	default:
	}
	if s.cache.standing.Load().trust.Epoch == 0 || s.cache.config.Load().settings.Redis == nil {
		return nil
	}
	m := s.cache.inUse.next()
	if m == nil {
		return nil
	}
	return s.send(contract.FrameInUse, m.Encode(), writeTimeout)
}

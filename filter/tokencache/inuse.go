package tokencache

import (
	"sync"

	"github.com/meshgate/meshgate/filter/contract"
)

// maxHeld bounds the tokens that are remembered in order to refill Redis.
const maxHeld = 32 << 10

// inUse holds tokens whose records Redis should hold soon: those that L1 held when Redis
// lost its data, or when L1 itself was emptied. Without it an empty Redis would stay empty
// as long as L1 answers, and would be useless in the next outage. The writer of the link
// sends the tokens in batches.
type inUse struct {
	mu      sync.Mutex
	pending []contract.Hash
	// batch is in progress with this number. A broken link puts it back.
	batch  []contract.Hash
	number uint64
	// ready wakes the writer.
	ready chan struct{}
}

// refillAfter refills Redis after a trust was adopted. A new epoch means that Redis holds no
// records yet. All tokens of L1 are then sent, because L1 answers for them, so nobody would
// ask for them and thereby fill Redis. Otherwise only the waiting tokens are sent.
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

// holdForRefill remembers the tokens in L1 if there is a second level.
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

// wake wakes the writer. The caller holds mu.
func (u *inUse) wake() {
	if len(u.pending) == 0 || u.batch != nil {
		return
	}
	select {
	case u.ready <- struct{}{}:
	default: // the writer will look anyway
	}
}

// look makes the writer look again after something that it waited for.
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

// next takes the next batch. It returns nil if one is in progress or no tokens wait.
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

// refilled ends the batch with that number.
func (u *inUse) refilled(number uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.batch == nil || number != u.number {
		return
	}
	u.batch = nil
	u.wake()
}

// sendInUse sends a batch once the control plane vouches for a Redis again, because before
// that the control plane would not write it. A pending acknowledgement goes first, because
// the control plane waits for it.
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

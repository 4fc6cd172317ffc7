package tokencache

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/meshgate/meshgate/filter/contract"
)

// standing is what a filter has applied of which log, and what it was told to
// believe. It is immutable: a look-up takes it when it begins, and compares.
type standing struct {
	// generation is that of the table. A look-up that began under another one
	// leaves nothing in the table.
	generation uint64
	// log is empty until the first welcome.
	log contract.LogID
	// applied means everything up to it, without a gap.
	applied contract.Position
	// trust has its servers in order; an epoch of 0 is none.
	trust contract.Trust
	// scopes is whose credentials the gateway accepts; nil if nobody has told.
	scopes *contract.Scopes
}

// accepts reports whether a record is of those that the gateway accepts. A control plane
// that does not tell whose they are puts none into records, and answers for its own.
func (s *standing) accepts(r *contract.Record) bool {
	if s.scopes == nil {
		return r.Plane == "" && r.ServicePlane == ""
	}
	return s.scopes.Has(r.Plane) && serves(s.scopes.Has, r)
}

// serves reports whether the service of a record, if another control plane has it, is of
// one that a gateway consists of.
func serves(has func(plane string) bool, r *contract.Record) bool {
	return r.ServicePlane == "" || has(r.ServicePlane)
}

var (
	errGap     = errors.New("the frame does not follow what was applied")
	errMoved   = errors.New("the settings name another control plane")
	errServers = fmt.Errorf("trust names more than %d servers", contract.MaxServers)
)

// amend replaces the standing by a changed copy.
func (c *Cache) amend(change func(*standing)) {
	c.amending.Lock()
	defer c.amending.Unlock()
	next := *c.standing.Load()
	change(&next)
	c.standing.Store(&next)
}

// begin returns the standing that a look-up begins at, with the configuration that
// belongs to it.
func (c *Cache) begin() (*standing, *config) {
	c.believing.RLock()
	defer c.believing.RUnlock()
	return c.standing.Load(), c.config.Load()
}

// neverOnDisk is the number of a wish that nobody has.
const neverOnDisk = math.MaxUint64

// welcomed puts in force what a Welcome says, before anything else is read. The
// number is that of the wish for its trust to be on disk.
func (c *Cache) welcomed(s *session, w *contract.Welcome) (number uint64, err error) {
	if w.Log == "" {
		return 0, errors.New("welcomed without a log")
	}
	number, moved, err := c.follow(s, w)
	switch {
	case err != nil:
		return 0, err
	case moved: // the writer will say goodbye
		return neverOnDisk, nil
	}
	c.refillAfter(w.Trust)
	return number, nil
}

// follow goes on in the log of a Welcome, or begins it. From then on its session can be
// asked: a look-up that begins without the trust that this may have taken away has
// nobody else. moved says that the settings name another control plane.
func (c *Cache) follow(s *session, w *contract.Welcome) (number uint64, moved bool, err error) {
	c.believing.Lock()
	defer c.believing.Unlock()
	if st := c.standing.Load(); st.log != w.Log || st.applied != w.From {
		c.startAnew(w.Log)
		if !c.names(&s.cp) { // what another one has said to an earlier process stays
			c.amend(func(next *standing) { next.trust, next.scopes = st.trust, st.scopes })
		}
		if w.From != 0 {
			// The floors of what comes before it are not known here.
			return 0, false, fmt.Errorf("welcomed from position %d: %w", w.From, errGap)
		}
	}
	if w.Scopes != nil {
		if err := w.Scopes.Check(); err != nil {
			return 0, false, err
		}
	}
	raise(&c.table.floors.global, w.Floor)
	c.witness.outdated()
	number, err = c.adopt(&s.cp, w.Trust, w.Scopes, true)
	if moved = errors.Is(err, errMoved); err != nil && !moved {
		return 0, false, err
	}
	c.session.Store(s)
	return number, moved, nil
}

// startAnew gives up everything that belongs to what was applied so far. The
// order matters. Without the lease no look-up begins in L1. The generation keeps
// out those that are under way. Floors go last: an entry that only a floor voids
// must not be met without it. Trust is taken away until the welcome gives it, so
// that nothing of the former log is read under the new generation.
func (c *Cache) startAnew(log contract.LogID) {
	c.setLease(nil)
	c.holdForRefill()
	generation := c.table.restart()
	c.amend(func(st *standing) {
		*st = standing{generation: generation, log: log}
	})
	c.counters.starts.Add(1)
	c.log.Info("the memory of tokens starts anew", "log", log)
}

// invalidated applies an Invalidate, which must follow what was applied.
func (c *Cache) invalidated(m *contract.Invalidate) error {
	st := c.standing.Load()
	if m.From != st.applied {
		return fmt.Errorf("invalidate from position %d at %d: %w", m.From, st.applied, errGap)
	}
	for i := range m.Items {
		c.table.invalidateAmong(st.scopes, &m.Items[i])
	}
	c.amend(func(st *standing) { st.applied = m.To })
	return nil
}

// entrusted applies a TrustChange, which must follow what was applied. The number
// is that of the wish for it to be on disk.
func (c *Cache) entrusted(cp *contract.ControlPlaneSettings, m *contract.TrustChange) (number uint64, err error) {
	c.believing.Lock()
	defer c.believing.Unlock()
	if at := c.standing.Load().applied; m.At != at+1 {
		return 0, fmt.Errorf("trust at position %d after %d: %w", m.At, at, errGap)
	}
	if number, err = c.adopt(cp, m.Trust, c.standing.Load().scopes, false); err != nil {
		return 0, err
	}
	c.amend(func(st *standing) { st.applied = m.At })
	return number, nil
}

// rescoped applies a [contract.Scopes]. What acknowledges it comes behind, so nothing that
// was judged before may be left then, whoever the settings name by now.
func (c *Cache) rescoped(cp *contract.ControlPlaneSettings, of *contract.Scopes) error {
	if err := of.Check(); err != nil {
		return err
	}
	c.believing.Lock()
	defer c.believing.Unlock()
	_, err := c.adopt(cp, c.standing.Load().trust, of, false)
	if errors.Is(err, errMoved) {
		c.rescope(c.standing.Load().scopes)
		return nil
	}
	c.log.Info("whose credentials are accepted changed", "control_planes", len(of.Members))
	return err
}

// sameTrust compares two that have their servers in order.
func sameTrust(a, b contract.Trust) bool {
	return a.Epoch == b.Epoch && slices.Equal(a.Servers, b.Servers)
}

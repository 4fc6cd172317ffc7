package tokencache

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// trustFile holds what the control plane vouched for last, so that a filter that
// starts while the control plane is away believes the same Redis as before, and no
// other.
const trustFile = contract.TrustFile

// rememberedTrust is the content of that file. What another control plane said,
// or to another node, is not used.
type rememberedTrust struct {
	Address string         `json:"address"`
	Node    string         `json:"node"`
	Trust   contract.Trust `json:"trust"`
	// Scopes is whose credentials the gateway accepts; nil was never told.
	Scopes *contract.Scopes `json:"scopes,omitempty"`
	// Leased is when the filter last had a lease, in milliseconds of Unix time,
	// or up to an hour off; 0 is never.
	Leased int64 `json:"leased_ms,omitempty"`
}

// usedBy says whether it was said by this control plane to this node.
func (r *rememberedTrust) usedBy(cp *contract.ControlPlaneSettings) bool {
	return r != nil && cp != nil && r.Address == cp.Address && r.Node == cp.Node
}

func parseTrust(data []byte) (*rememberedTrust, error) {
	var r rememberedTrust
	if err := contract.DecodeJSON(data, &r); err != nil {
		return nil, err
	}
	if r.Scopes != nil {
		if err := r.Scopes.Check(); err != nil {
			return nil, err
		}
	}
	switch {
	case len(r.Trust.Servers) > contract.MaxServers:
		return nil, errServers
	case !slices.IsSorted(r.Trust.Servers):
		return nil, errors.New("the servers are not in order")
	case r.Leased < 0 || r.Leased > time.Unix(1<<33, 0).UnixMilli():
		return nil, errors.New("the time of the last lease is out of range")
	}
	return &r, nil
}

// agrees says whether both say the same but for the time of the last lease.
func (r *rememberedTrust) agrees(o *rememberedTrust) bool {
	return r != nil && r.Address == o.Address && r.Node == o.Node && sameTrust(r.Trust, o.Trust) && r.Scopes.Equal(o.Scopes)
}

// recallTrust reads what an earlier process was told; nil if there is nothing
// usable, or if another cache of this process may be forgetting it.
func (c *Cache) recallTrust(s *contract.Settings) *rememberedTrust {
	if c.disk.files == nil || s.ControlPlane == nil || !tenants.alone(c.opts.Dir) {
		return nil
	}
	r, err := readTrust(c.disk.files)
	if err != nil {
		c.log.Warn("what the control plane vouched for in redis is forgotten", "error", err)
		return nil
	}
	if !r.usedBy(s.ControlPlane) {
		return nil
	}
	return r
}

// readTrust reads the trust file; nil if there is none.
func readTrust(from files) (*rememberedTrust, error) {
	data, err := from.read(trustFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", trustFile, err)
	}
	return parseTrust(data)
}

func writeTrust(to files, r *rememberedTrust) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return to.write(trustFile, data)
}

// recalled makes what was read the trust in force; nil is none. configuring is
// held, or nobody else has the cache yet.
func (c *Cache) recalled(r *rememberedTrust) (contract.Trust, *contract.Scopes) {
	c.lastLease.Store(nil)
	if r == nil {
		return contract.Trust{}, nil
	}
	if r.Leased != 0 {
		now := c.clock.Now()
		wall := r.Leased * int64(time.Millisecond)
		// What passed since is known from the wall clock only.
		c.lastLease.Store(&Instant{Wall: wall, Mono: now.Mono - max(0, time.Duration(now.Wall-wall))})
	}
	c.lastEpoch = r.Trust.Epoch
	return r.Trust, r.Scopes
}

// forgetTrust takes back what one control plane said: in memory at once, on the
// disk when the wish of that number is fulfilled.
func (c *Cache) forgetTrust(cp *contract.ControlPlaneSettings) (number uint64) {
	c.configuring.Lock()
	defer c.configuring.Unlock()
	c.departed = true
	if now := c.base.ControlPlane; now != nil && now.Address == cp.Address && now.Node == cp.Node {
		c.amend(func(st *standing) { st.trust = contract.Trust{} })
	}
	return c.disk.forget(cp)
}

// rememberTrust has the file say this, with the time of the last lease. configuring
// is held.
func (c *Cache) rememberTrust(cp *contract.ControlPlaneSettings, t contract.Trust, of *contract.Scopes) (number uint64) {
	r := &rememberedTrust{Address: cp.Address, Node: cp.Node, Trust: t, Scopes: of}
	if last := c.lastLease.Load(); last != nil {
		r.Leased = last.millis()
	}
	return c.disk.keep(r)
}

// noteLease keeps the time of the last lease in the file about right.
func (c *Cache) noteLease(cp *contract.ControlPlaneSettings) {
	last := c.lastLease.Load()
	if last == nil || !c.disk.noteDue(last.millis()) {
		return
	}
	c.configuring.Lock()
	defer c.configuring.Unlock()
	if sameControlPlane(c.base.ControlPlane, cp) {
		c.disk.note(cp, last.millis())
	}
}

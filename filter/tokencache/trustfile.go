package tokencache

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// trustFile holds what the control plane
// vouched for last, so that a filter that starts while the control plane is away
// believes the same Redis as before, and no other.
const trustFile = contract.TrustFile

// rememberedTrust is the content of that file. What another control plane said,
// or to another node, is not used.
type rememberedTrust struct {
	Address string         `json:"address"`
	Node    string         `json:"node"`
	Trust   contract.Trust `json:"trust"`
	// Leased is when the filter last had a lease, in milliseconds of Unix time,
	// or up to an hour earlier; 0 is never.
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

// recallTrust reads what an earlier process was told; nil if there is nothing
// usable.
func (c *Cache) recallTrust(s *contract.Settings) *rememberedTrust {
	if c.opts.Dir == "" || s.ControlPlane == nil {
		return nil
	}
	r, err := readTrust(c.opts.Dir)
	if err != nil {
		c.log.Warn("what the control plane vouched for in redis is forgotten", "error", err)
		return nil
	}
	if !r.usedBy(s.ControlPlane) {
		return nil
	}
	return r
}

// readTrust reads the file; nil if there is none.
func readTrust(dir string) (*rememberedTrust, error) {
	data, err := readLimited(filepath.Join(dir, trustFile), maxSettings)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseTrust(data)
}

// forgetTrust takes back what one control plane said, in memory and on disk.
func (c *Cache) forgetTrust(cp *contract.ControlPlaneSettings) error {
	c.configuring.Lock()
	defer c.configuring.Unlock()
	c.departed = true
	if now := c.base.ControlPlane; now != nil && now.Address == cp.Address && now.Node == cp.Node {
		c.amend(func(st *standing) { st.trust = contract.Trust{} })
		c.onDisk = nil
	}
	if c.opts.Dir == "" {
		return nil
	}
	dir := c.opts.Dir
	if r, err := readTrust(dir); err == nil && !r.usedBy(cp) {
		return nil // another control plane has said that since
	}
	return removeDurably(dir, trustFile)
}

// recalled makes what was read the trust in force; nil is none. configuring is
// held, or nobody else has the cache yet.
func (c *Cache) recalled(r *rememberedTrust) contract.Trust {
	c.onDisk = r
	c.lastLease.Store(nil)
	if r == nil {
		return contract.Trust{}
	}
	c.leaseOnDisk.Store(r.Leased)
	if r.Leased != 0 {
		now := c.clock.Now()
		wall := r.Leased * int64(time.Millisecond)
		// What passed since is known from the wall clock only.
		c.lastLease.Store(&Instant{Wall: wall, Mono: now.Mono - max(0, time.Duration(now.Wall-wall))})
	}
	c.lastEpoch = r.Trust.Epoch
	return r.Trust
}

// rememberTrust writes the file unless it says so already. A trust that cannot be
// written must not leave an older one behind: a restarted filter would believe
// what was taken back. configuring is held.
func (c *Cache) rememberTrust(cp *contract.ControlPlaneSettings, t contract.Trust) error {
	if c.opts.Dir == "" || (c.onDisk.usedBy(cp) && sameTrust(c.onDisk.Trust, t)) {
		return nil
	}
	err := c.writeTrust(cp, t)
	if err == nil {
		return nil
	}
	c.log.Warn("what the control plane vouches for in redis is not remembered", "error", err)
	c.onDisk = nil
	if err := removeDurably(c.opts.Dir, trustFile); err != nil {
		return fmt.Errorf("an older trust stays on disk: %w", err)
	}
	return nil
}

func (c *Cache) writeTrust(cp *contract.ControlPlaneSettings, t contract.Trust) error {
	r := &rememberedTrust{Address: cp.Address, Node: cp.Node, Trust: t}
	if last := c.lastLease.Load(); last != nil {
		r.Leased = last.millis()
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := writeDurably(c.opts.Dir, trustFile, data); err != nil {
		return err
	}
	c.onDisk = r
	c.leaseOnDisk.Store(r.Leased)
	return nil
}

// noteLease keeps the time of the last lease in the file about right.
func (c *Cache) noteLease(cp *contract.ControlPlaneSettings) {
	last := c.lastLease.Load()
	if c.opts.Dir == "" || last == nil || last.millis()-c.leaseOnDisk.Load() < leaseNoted.Milliseconds() {
		return
	}
	c.configuring.Lock()
	defer c.configuring.Unlock()
	c.leaseOnDisk.Store(last.millis()) // what cannot be written is tried again later
	if !c.onDisk.usedBy(cp) || !sameControlPlane(c.base.ControlPlane, cp) {
		return
	}
	if err := c.writeTrust(cp, c.onDisk.Trust); err != nil {
		c.log.Warn("the time of the last lease is not remembered", "error", err)
	}
}

package publish

import (
	"sync"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// confirmations collects what proxies have confirmed: whether they accept mutual TLS, for
// the next round, and the last set of each node.
type confirmations struct {
	mu      sync.Mutex
	secured map[string]map[string]bool
	sets    map[string]*resource.Set
}

// note stores a confirmation and reports whether the next round has to take it. Most
// confirmations are about another endpoint or route, which changes nothing for other
// proxies.
func (c *confirmations) note(node, meshName, dataplane string, set *resource.Set, secured bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.sets[node]
	c.keep(node, set)
	if _, was := before.Generation(mesh.SecretIdentity(meshName)); known && was == secured {
		return false
	}
	if c.secured == nil {
		c.secured = map[string]map[string]bool{}
	}
	if c.secured[meshName] == nil {
		c.secured[meshName] = map[string]bool{}
	}
	c.secured[meshName][dataplane] = secured
	return true
}

// keep remembers the last set of a node. The caller holds mu.
func (c *confirmations) keep(node string, set *resource.Set) {
	if c.sets == nil {
		c.sets = map[string]*resource.Set{}
	}
	c.sets[node] = set
}

func (c *confirmations) last(node string) *resource.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets[node]
}

func (c *confirmations) forget(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sets, node)
}

// take returns the news of a mesh since the last call.
func (c *confirmations) take(meshName string) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.secured[meshName]
	delete(c.secured, meshName)
	return out
}

// Confirmed notes that a node has answered everything in a state. It does not block.
func (l *Loop) Confirmed(node string, st snapshot.State) {
	meshName, dataplane, err := ParseProxy(node)
	if err != nil { // a gateway; no mesh waits for its confirmation
		l.confirmed.mu.Lock()
		defer l.confirmed.mu.Unlock()
		l.confirmed.keep(node, st.Set)
		return
	}
	_, secured := st.Set.Generation(mesh.SecretIdentity(meshName))
	if l.confirmed.note(node, meshName, dataplane, st.Set, secured) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if p := l.opened(meshName); p != nil {
			p.signal()
		}
	}
}

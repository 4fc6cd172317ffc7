package sidecar

import (
	"maps"

	"github.com/meshgate/meshgate/xds/resource"
)

// Alone plans one proxy of a planner as if there was no other, and so without what
// proxies share.
func (p *Planner) Alone(name string) *resource.Set {
	alone := New(p.policies, p.outside, p.log, p.state, p.kinds[len(DestinationKinds()):]...)
	maps.Copy(alone.secured, p.secured)
	maps.Copy(alone.bare, p.bare)
	alone.Join(name)
	return alone.Plan()[name]
}

// Reaches is the number of reaches.
func (p *Planner) Reaches() int { return len(p.reaches) }

// Moved is the number of reaches that the next Plan looks at.
func (p *Planner) Moved() int { return len(p.moved) }

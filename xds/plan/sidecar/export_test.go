package sidecar

import (
	"maps"
	"slices"

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

// Loose lists the proxies at which the next Plan looks for themselves, those of reaches and classes that
// it makes first among them.
func (p *Planner) Loose() (names []string) {
	for name, x := range p.proxies {
		_, loose := p.loose[x]
		_, dirty := p.dirty[x.class]
		_, moved := p.moved[x.class.reach]
		if loose || dirty || moved {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

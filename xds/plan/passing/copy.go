package passing

import "maps"

// Copy returns a planner that remembers the same, such as what a service contributed that cannot be
// made now. Both can be used at the same time: they share only what never changes.
func (p *Planner) Copy() *Planner {
	next := *p
	next.meshes = make(map[string]*meshPart, len(p.meshes))
	for name, part := range p.meshes {
		own := *part
		own.services, own.leads = maps.Clone(part.services), maps.Clone(part.leads)
		next.meshes[name] = &own
	}
	next.sets = maps.Clone(p.sets)
	return &next
}

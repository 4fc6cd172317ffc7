package mesh

import "maps"

// InZone returns what completes the spec of a Dataplane in a control plane whose zone has a configured
// name: each inbound and the gateway have that zone as their tag [TagZone], whatever the author says.
// Otherwise a proxy could name another zone, and policies and its certificate would go by that. The given
// spec is not written to; it is returned where it is complete.
func InZone(zone string) func(spec any) any {
	return func(spec any) any {
		d := spec.(*Dataplane)
		if d.inZone(zone) {
			return d
		}
		out := d.WithInbounds(func(in *Inbound) { in.Tags = in.Tags.inZone(zone) })
		if g := out.Networking.Gateway; g != nil {
			own := *g
			own.Tags = g.Tags.inZone(zone)
			out.Networking.Gateway = &own
		}
		return out
	}
}

// inZone reports whether all tag sets of a dataplane say that it is in a zone.
func (d *Dataplane) inZone(zone string) bool {
	for _, tags := range d.TagSets() {
		if tags[TagZone] != zone {
			return false
		}
	}
	return true
}

// inZone returns the tags of something that is in a zone.
func (t Tags) inZone(zone string) Tags {
	out := maps.Clone(t)
	if out == nil {
		out = Tags{}
	}
	out[TagZone] = zone
	return out
}

package view

import (
	"iter"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// remote is what a mesh has of other zones: their ingresses, and which of the zones are switched
// off. What other zones have of the mesh are endpoints of its services, as inbounds are.
type remote struct {
	// own is the zone of this control plane.
	own string
	// ingresses are those of other zones, by name.
	ingresses table[*Entry[mesh.ZoneIngress]]
	// off are the zones that are switched off.
	off table[bool]
}

// reaches returns an ingress as far as it counts: nil for one in a zone that is switched off.
func (r *remote) reaches(name string) *Entry[mesh.ZoneIngress] {
	e, ok := r.ingresses.get(name)
	if !ok {
		return nil
	}
	if off, _ := r.off.get(e.Spec.Zone); off {
		return nil
	}
	return e
}

// ofZones holds the changes of ingresses and zones, by name; nil means deleted.
type ofZones struct {
	ingresses map[string]*Entry[mesh.ZoneIngress]
	zones     map[string]*Entry[mesh.Zone]
}

func (z *ofZones) none() bool { return len(z.ingresses)+len(z.zones) == 0 }

// putIngress takes an ingress, unless it is one of the own zone. It reports whether anything can
// differ.
func (d *meshDraft) putIngress(e *Entry[mesh.ZoneIngress]) bool {
	if e.Spec.In(d.from.remote.own, d.from.remote.own) {
		return d.dropIngress(e.ID)
	}
	d.zones.ingresses[e.ID] = e
	return true
}

func (d *meshDraft) dropIngress(name string) bool {
	if _, was := d.from.remote.ingresses.get(name); !was {
		return false
	}
	d.zones.ingresses[name] = nil
	return true
}

// freezeZones returns the ingresses and zones after all changes, and tells an edit of the services
// what differs.
func (d *meshDraft) freezeZones(services *endpointEdit) remote {
	was := &d.from.remote
	ingresses, off := editOf(was.ingresses), editOf(was.off)
	differ := map[string]bool{}
	for name, now := range d.zones.ingresses {
		differ[name] = true
		if now == nil {
			ingresses.drop(name)
		} else {
			ingresses.put(name, now)
		}
	}
	for zone, now := range d.zones.zones {
		if now == nil || now.Spec.IsEnabled() {
			off.drop(zone)
		} else {
			off.put(zone, true)
		}
		for name, e := range was.ingresses.all() {
			differ[name] = differ[name] || e.Spec.Zone == zone
		}
	}
	next := remote{own: was.own, ingresses: ingresses.table, off: off.table}
	for name, yes := range differ {
		if yes {
			services.ingress(name, was.reaches(name), next.reaches(name))
		}
	}
	return next
}

// ingress replaces an ingress of another zone; nil means that there is none.
func (e *endpointEdit) ingress(name string, was, now *Entry[mesh.ZoneIngress]) {
	for _, at := range remoteOf(name, e.from.name, was) {
		c := e.service(at.Tags.Service())
		c.inbounds--
		c.left[at.Source()] = struct{}{}
	}
	for _, at := range remoteOf(name, e.from.name, now) {
		c := e.service(at.Tags.Service())
		c.inbounds++
		c.joined = append(c.joined, at)
	}
}

func remoteOf(name, meshName string, e *Entry[mesh.ZoneIngress]) []Endpoint {
	if e == nil {
		return nil
	}
	return e.Spec.Endpoints(name, meshName)
}

// Elsewhere yields the services that a zone or an ingress of another zone has of the mesh, by the
// key of its resource. It may yield a service more than once.
func (m *Mesh) Elsewhere(key model.Key) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, e := range m.remote.ingresses.all() {
			if key.Kind == mesh.ZoneIngresses.Name && name != key.Name || key.Kind == mesh.Zones.Name && e.Spec.Zone != key.Name {
				continue
			}
			for _, at := range e.Spec.Endpoints(name, m.name) {
				if !yield(at.Tags.Service()) {
					return
				}
			}
		}
	}
}

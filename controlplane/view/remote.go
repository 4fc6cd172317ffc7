package view

import (
	"iter"
	"math"
	"net/netip"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// remote is what a mesh has of other zones: their ingresses, which of the zones are switched off,
// and the egresses of the own zone, through which they may be called. What other zones have of the mesh are endpoints of its services, as inbounds are.
type remote struct {
	// own is the zone of this control plane.
	own string
	// ingresses are those of other zones, by name.
	ingresses table[*Entry[mesh.ZoneIngress]]
	// egresses are those of the own zone, by name.
	egresses table[*Entry[mesh.ZoneEgress]]
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

// ofZones holds the changes of ingresses, egresses and zones, by name; nil means deleted.
type ofZones struct {
	ingresses map[string]*Entry[mesh.ZoneIngress]
	egresses  map[string]*Entry[mesh.ZoneEgress]
	zones     map[string]*Entry[mesh.Zone]
}

func (z *ofZones) none() bool { return len(z.ingresses)+len(z.egresses)+len(z.zones) == 0 }

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

// putEgress takes an egress, if it is one of the own zone. It reports whether anything can differ.
func (d *meshDraft) putEgress(e *Entry[mesh.ZoneEgress]) bool {
	if !e.Spec.In(d.from.remote.own, d.from.remote.own) {
		return d.dropEgress(e.ID)
	}
	d.zones.egresses[e.ID] = e
	return true
}

func (d *meshDraft) dropEgress(name string) bool {
	if _, was := d.from.remote.egresses.get(name); !was {
		return false
	}
	d.zones.egresses[name] = nil
	return true
}

// freezeZones returns the ingresses, egresses and zones after all changes, and tells an edit of the services
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
	egresses := editOf(was.egresses)
	for name, now := range d.zones.egresses {
		if now == nil {
			egresses.drop(name)
		} else {
			egresses.put(name, now)
		}
	}
	next := remote{own: was.own, ingresses: ingresses.table, egresses: egresses.table, off: off.table}
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

// ThroughEgress reports whether other zones are called through the egresses of the own one.
func (m *Mesh) ThroughEgress() bool {
	return m.spec != nil && m.spec.Spec.Routing != nil && m.spec.Spec.Routing.ZoneEgress
}

// LeavesByEgress reports whether services outside the mesh are called through the egresses of the
// own zone.
func (m *Mesh) LeavesByEgress() bool { return m.spec != nil && m.spec.Spec.LeavesByEgress() }

// Egresses returns where the egresses of the own zone listen, each address once and in order. One
// at no IP address is none: nobody could be sure to call a proxy of the zone. Neither is one that does not
// listen yet.
func (m *Mesh) Egresses() (out []netip.AddrPort) {
	for _, e := range m.remote.egresses.all() {
		if mesh.IsStarting(e.Spec.Labels) {
			continue
		}
		address, port := e.Spec.Listens()
		if ip, err := netip.ParseAddr(address); err == nil && port > 0 && port <= math.MaxUint16 {
			out = append(out, netip.AddrPortFrom(ip, uint16(port)))
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
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

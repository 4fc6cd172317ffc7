package census

import (
	"cmp"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

// class is what a dataplane is.
type class int

const (
	standard class = iota
	builtin
	delegated
	classes
)

// unknown is the version of a proxy that reported none.
const unknown = "unknown"

// share is what one dataplane adds to the counts. It never changes.
type share struct {
	class class
	// ready is the status that the dataplane has while its proxy is connected.
	ready string
	// serves are its services, each once.
	serves []serve
	report
}

// serve is one service of a dataplane.
type serve struct {
	service string
	as      class
	zones   []string
}

// report is the part of a share that depends on what is known about the proxy.
type report struct {
	status       string
	agent, proxy string
	issued       string
	supported    []string
}

// connected is an insight of a proxy that has a stream.
var connected = &insight.DataplaneInsight{Subscriptions: []insight.Subscription{{ConnectTime: time.Unix(0, 0)}}}

// shareOf returns the share of a dataplane. One that cannot be read (nil) is offline, and it is
// not known what it serves.
func shareOf(d *mesh.Dataplane, in *insight.DataplaneInsight) *share {
	if d == nil {
		return (&share{ready: insight.Offline}).with(in)
	}
	s := &share{ready: insight.Status(d, connected)}
	if d.Networking == nil {
		return s.with(in)
	}
	if g := d.Networking.Gateway; g != nil {
		s.class = delegated
		if g.Type == mesh.GatewayBuiltin {
			s.class = builtin
		}
		s.serve(s.class, g.Tags)
	}
	for i := range d.Networking.Inbound {
		if in := &d.Networking.Inbound[i]; in.State != mesh.StateIgnored {
			s.serve(standard, in.Tags)
		}
	}
	return s.with(in)
}

// serve adds a service. A dataplane counts once for a service, however many inbounds it has.
func (s *share) serve(as class, tags mesh.Tags) {
	service := tags.Service()
	if service == "" {
		return
	}
	i := slices.IndexFunc(s.serves, func(v serve) bool { return v.service == service && v.as == as })
	if i < 0 {
		i = len(s.serves)
		s.serves = append(s.serves, serve{service: service, as: as})
	}
	if zone := tags[mesh.TagZone]; zone != "" && !slices.Contains(s.serves[i].zones, zone) {
		s.serves[i].zones = append(s.serves[i].zones, zone)
	}
}

// with returns the share of the same dataplane with another insight.
func (s *share) with(in *insight.DataplaneInsight) *share {
	out := *s
	out.report = report{status: insight.Offline, agent: unknown, proxy: unknown}
	if in.Online() {
		out.status = s.ready
	}
	if last := in.Last(); last != nil && last.Version != nil {
		out.agent, out.proxy = cmp.Or(last.Version.MeshDP.Version, unknown), cmp.Or(last.Version.Proxy.Version, unknown)
	}
	if in != nil && in.MTLS != nil {
		out.issued, out.supported = in.MTLS.IssuedBackend, in.MTLS.SupportedBackends
	}
	return &out
}

// add counts a dataplane of a status n times; -1 takes it away.
func (c *Counts) add(status string, n int) {
	c.Total += n
	switch status {
	case insight.Online:
		c.Online += n
	case insight.PartiallyDegraded:
		c.PartiallyDegraded += n
	default:
		c.Offline += n
	}
}

func (c Counts) plus(o Counts) Counts {
	return Counts{c.Total + o.Total, c.Online + o.Online, c.Offline + o.Offline, c.PartiallyDegraded + o.PartiallyDegraded}
}

func (c Counts) times(n int) Counts {
	return Counts{c.Total * n, c.Online * n, c.Offline * n, c.PartiallyDegraded * n}
}

func (c Counts) full() Full { return Full{c.Online, c.Offline, c.PartiallyDegraded, c.Total} }

// bump adds to one of several counts. A count of nothing goes.
func bump(all map[string]Counts, key, status string, n int) {
	if key == "" {
		return
	}
	c := all[key]
	c.add(status, n)
	if c.Total == 0 {
		delete(all, key)
		return
	}
	all[key] = c
}

// tick is bump for plain numbers.
func tick(all map[string]int, key string, n int) {
	if all[key] += n; all[key] == 0 {
		delete(all, key)
	}
}

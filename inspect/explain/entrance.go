package explain

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/inspect/interpret"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
	"github.com/meshgate/meshgate/xds/selection"
)

// A builtin gateway as the source is where a client without a proxy comes in. The destination is then
// one of its listeners, and the host is what the client asks for.

// enter finds the listener of the gateway.
func (w *walk) enter(p *interpret.Proxy) (l *interpret.Listener, to netip.AddrPort, ended *Outcome, err error) {
	host, port, ok := split(w.q.Destination)
	if !ok {
		return nil, to, nil, &interpret.Unsaid{What: "the source is a gateway of the mesh, and the destination is none of its listeners: give the address and the port of one"}
	}
	if to, err = addrPort(host, port); err == nil {
		l, err = p.Find(w.ctx, to)
	}
	if l == nil && err == nil {
		by := &Step{Proxy: w.source.ID, Step: interpret.StepListener, Text: "the gateway does not listen at " + w.q.Destination, Refused: true, Decided: []Resource{w.dataplane(w.source)}}
		return nil, to, &Outcome{Verdict: Refused, By: by, Text: by.Text}, nil
	}
	return l, to, nil, err
}

// arrival is the connection of the client, and the scheme of its request.
func (w *walk) arrival(to netip.AddrPort, host string) (c interpret.Connection, scheme string) {
	c, scheme = interpret.Connection{To: to}, "http"
	n := w.source.Spec.Networking
	if !selection.Builtin(n) {
		return c, scheme
	}
	g := selection.ChosenGateway(w.mesh, n.Gateway.Tags)
	if g == nil {
		return c, scheme
	}
	for _, l := range g.Spec.(*mesh.MeshGateway).Listeners() {
		if l.Port == uint32(to.Port()) && (l.Protocol == mesh.ListenerHTTPS || l.Protocol == mesh.ListenerTLS) {
			c.TLS, c.ServerName, scheme = true, bare(host), "https"
		}
	}
	return c, scheme
}

func bare(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// atEntrance names the policies that demand a token of the client.
func (w *walk) atEntrance() []Resource {
	n := w.source.Spec.Networking
	_, port, ok := split(w.q.Destination)
	if !ok || !selection.Builtin(n) {
		return nil
	}
	places := w.ofSource()
	var at *selection.Place
	name := ""
	for i := range places {
		p := &places[i]
		host, here := strings.CutPrefix(p.Name, net.JoinHostPort(n.Address, strconv.FormatUint(uint64(port), 10))+":")
		if p.Sort == selection.PlaceListener && here && selection.Covers(host, bare(w.hostOf())) && len(host) > len(name) {
			at, name = p, host
		}
	}
	if at == nil {
		return nil
	}
	for _, m := range at.Matches {
		if m.Policy.Kind == meshtokenauth.Kind {
			return w.named(m.Policy.Kind, m.Chosen.Policies[:1])
		}
	}
	return nil
}

package agent

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/meshgate/meshgate/controlplane/resolver"
	"github.com/meshgate/meshgate/xds/naming"
)

// DNS says where the agent of a sidecar answers for the host names of its mesh.
type DNS struct {
	// Port is on 127.0.0.1, over UDP and TCP.
	Port uint16
	// Upstreams are asked for all other names. If there are none, they are the resolvers of this
	// machine.
	Upstreams []netip.AddrPort
}

// nameServer is a DNS server, or nothing.
type nameServer interface {
	Set(naming.Table)
	Serve(ctx context.Context) error
	Close()
}

// openDNS opens the DNS server if there is one.
func (a *Agent) openDNS() (nameServer, error) {
	if a.DNS == nil {
		return noNames{}, nil
	}
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), a.DNS.Port)
	s, err := resolver.Open(resolver.Options{Address: at, Upstreams: a.DNS.Upstreams, Log: a.Log})
	if err != nil {
		return nil, fmt.Errorf("--dns-port: %w", err)
	}
	a.Log.Info("answering for the names of the mesh", "node", a.NodeID(), "address", at.String())
	return s, nil
}

// noNames is for agents without a DNS server.
type noNames struct{}

// Set implements nameServer.
func (noNames) Set(naming.Table) {}

// Serve implements nameServer.
func (noNames) Serve(context.Context) error { return nil }

// Close implements nameServer.
func (noNames) Close() {}

package framework

import (
	"context"
	"fmt"
	"net"
)

// AtDNS returns a resolver that asks one server over a network, udp or tcp.
func AtDNS(network string, port int) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: dialer(network, port)}
}

func dialer(network string, port int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", port))
	}
}

package engine

import (
	"net/netip"
	"strings"

	"github.com/meshgate/meshgate/filter/contract"
)

// HeaderEdit sets a request header, replacing all its values; an empty Value
// removes the header.
type HeaderEdit struct{ Name, Value string }

// HandOver returns the edits that hand the request of an Issue verdict to the
// OAuth server. All of them must be applied, the removals too: a header that is
// not the filter's own would be believed. The scheme is that of the client's
// connection; any but "https" counts as http, on which nothing is issued. The
// client is the peer's address with or without a port; one that is no IP address
// is left out. The strings of the result alias the arguments.
func (p *Program) HandOver(v *Verdict, scheme, client string) [4]HeaderEdit {
	if scheme != "https" {
		scheme = "http"
	}
	return [4]HeaderEdit{
		{contract.HeaderOAuthPlugin, v.Plugin},
		{contract.HeaderOAuthService, p.service},
		{contract.HeaderOAuthScheme, scheme},
		{contract.HeaderOAuthClient, host(client)},
	}
}

// host cuts the port off an IP address; "" if address is none. Zones are
// refused, they mean nothing on another machine.
func host(address string) string {
	if !strings.HasPrefix(address, "[") && strings.Count(address, ":") != 1 {
		if a, err := netip.ParseAddr(address); err != nil || a.Zone() != "" {
			return ""
		}
		return address
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil || ap.Addr().Zone() != "" {
		return ""
	}
	address = address[:strings.LastIndexByte(address, ':')]
	return strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
}

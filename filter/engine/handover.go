package engine

import (
	"net/netip"
	"strings"

	"github.com/meshgate/meshgate/filter/contract"
)

// HeaderEdit sets a request header, replacing all its values; an empty Value
// removes the header.
type HeaderEdit struct{ Name, Value string }

// HandOver returns the edits that hand the request of an Issue verdict to the OAuth server.
// All of them must be applied, including the removals: the OAuth server would believe a
// header that the client has set. The scheme is that of the client's connection; anything
// but "https" counts as http, on which nothing is issued. The client is the peer's address
// with or without a port. It is left out if it is no IP address. The strings of the result
// alias the arguments.
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

// host cuts the port off an IP address. It returns "" for anything else. Zones are refused,
// because they mean nothing on another machine.
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

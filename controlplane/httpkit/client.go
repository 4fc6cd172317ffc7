package httpkit

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// headerForwarded lists the clients for which proxies speak: each proxy appends where it got the
// request from. What is left of that, anybody may have sent.
const headerForwarded = "X-Forwarded-For"

// Behind returns a handler whose requests may come through proxies. [SourceOf] is then the address of the
// client for which they speak. It belongs inside [Observe], whose log line names that address, too.
func Behind(trusted []netip.Prefix, next http.Handler) http.Handler {
	if len(trusted) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		EntryOf(r.Context()).Client = clientOf(r, trusted)
		next.ServeHTTP(w, r)
	})
}

// clientOf returns the address that is the nearest one behind the proxies that are trusted. Only these
// have written what it reads: it begins with the connection and goes from right to left, as long as an
// address is one of them, and never reads on behind the first that is not. A client that sends a list of
// its own therefore changes nothing. Where no such address is found, because something on the way is no
// address or all are proxies, it is that of the connection.
func clientOf(r *http.Request, trusted []netip.Prefix) netip.Addr {
	proxy := func(at netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(at) })
	}
	peer := connectionOf(r)
	if !proxy(peer) {
		return peer
	}
	for _, line := range slices.Backward(r.Header.Values(headerForwarded)) {
		for more := true; more; {
			i := strings.LastIndexByte(line, ',')
			at := forwarded(line[i+1:])
			if !at.IsValid() {
				return peer
			}
			if !proxy(at) {
				return at
			}
			if more = i >= 0; more {
				line = line[:i]
			}
		}
	}
	return peer
}

// forwarded reads one entry: an address, which some proxies put into brackets or give a port. It is not
// valid if the entry is something else.
func forwarded(entry string) netip.Addr {
	entry = strings.Trim(entry, " \t")
	if at, err := netip.ParseAddrPort(entry); err == nil {
		return plain(at.Addr())
	}
	if inner, ok := strings.CutPrefix(entry, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(inner, ":") {
			return netip.Addr{}
		}
		entry = inner
	}
	at, err := netip.ParseAddr(entry)
	if err != nil {
		return netip.Addr{}
	}
	return plain(at)
}

// plain is an address as networks contain it: an IPv4 address in IPv6 is one of IPv4, and the name of an
// interface says nothing about a client.
func plain(at netip.Addr) netip.Addr { return at.Unmap().WithZone("") }

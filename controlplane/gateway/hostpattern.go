package gateway

import (
	"strconv"
	"strings"
)

// HostPattern is one of a route's hosts.
type HostPattern struct {
	// Name is in lower case: a host name, a suffix after "*", or a prefix before "*". The
	// asterisk stands for at least one character.
	Name string
	// Port, unless 0, is the port that the request must name. A request that names none must
	// arrive at it.
	Port uint16
}

// ParseHost reads a host of a route. ok is false if the text is not one.
func ParseHost(host string) (p HostPattern, ok bool) {
	p.Name = strings.ToLower(host)
	if hasPort(host) {
		at := strings.LastIndexByte(host, ':')
		port, err := strconv.ParseUint(host[at+1:], 10, 16)
		if err != nil || port == 0 {
			return p, false
		}
		p.Name, p.Port = p.Name[:at], uint16(port)
	}
	rest := p.Name
	switch {
	case p.Suffix() != "":
		rest = p.Name[2:]
	case p.Prefix() != "":
		rest = p.Name[:len(p.Name)-2]
	}
	return p, rest != "" && !strings.ContainsAny(rest, "*")
}

// Suffix returns the suffix that hosts must have, with its dot; empty unless the leftmost
// label is the wildcard.
func (p HostPattern) Suffix() string {
	if strings.HasPrefix(p.Name, "*.") {
		return p.Name[1:]
	}
	return ""
}

// Prefix returns the prefix that hosts must have, with its dot; empty unless the rightmost
// label is the wildcard.
func (p HostPattern) Prefix() string {
	if strings.HasSuffix(p.Name, ".*") {
		return p.Name[:len(p.Name)-1]
	}
	return ""
}

// hasPort reports whether a host has a port. The colons of an IPv6 address, with or without
// brackets, do not count.
func hasPort(host string) bool {
	if strings.HasPrefix(host, "[") {
		return strings.Contains(host, "]:")
	}
	return strings.Count(host, ":") == 1
}

func isWildcard(host string) bool { return strings.Contains(host, "*") }

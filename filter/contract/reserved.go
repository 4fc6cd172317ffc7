package contract

import "bytes"

// Reserved is one entry of what clients may not claim about themselves: a request header, or
// a family of them, that is removed before a request goes on. Names are compared without
// regard to case and with "_" equal to "-", because many servers cannot tell such spellings
// apart (RFC 3875 section 4.1.18 maps both to "_").
type Reserved struct {
	// Name is in lower case, with dashes.
	Name string
	// Family says that Name is the beginning of the names of many headers.
	Family bool
	// Twins removes only spellings with an underscore. With dashes alone the header is
	// written by the listener, or by the filter ([Forwarding]), or by a client that is trusted.
	Twins bool
	// Kept is the one header of the family that stays, in exactly this spelling,
	// because Envoy has written it itself; empty for none.
	Kept string
	// HandingOver says that Kept stays only on the way to the OAuth server.
	HandingOver bool
}

// ReservedHeaders is the list. The front in C has a copy, which go generate in
// filter/dynamicmodule makes from this one.
var ReservedHeaders = [...]Reserved{
	{Name: "x-consumer-", Family: true},
	{Name: "x-credential-", Family: true},
	{Name: "x-authenticated-", Family: true},
	{Name: "x-anonymous-consumer"},
	{Name: "x-meshgate-", Family: true, Kept: HeaderOAuthProto, HandingOver: true},
	{Name: "x-envoy-", Family: true, Kept: "x-envoy-external-address"},
	{Name: "x-forwarded-", Family: true, Twins: true},
	{Name: "x-real-ip", Twins: true},
	{Name: "forwarded", Twins: true},
}

// IsReserved reports whether a header with this name, in any case, must be removed from a
// request. handingOver says that the request goes to the OAuth server. IsReserved does not
// allocate.
func IsReserved(name []byte, handingOver bool) bool {
	r := reservedAs(name)
	if r == nil || r.Twins && bytes.IndexByte(name, '_') < 0 {
		return false
	}
	keeps := r.Kept != "" && string(name) == r.Kept && (handingOver || !r.HandingOver)
	return !keeps
}

// IsReservedTrailer is IsReserved for trailers. A listener writes no trailers, so every
// trailer on the list comes from the client, with dashes or without.
func IsReservedTrailer(name []byte) bool { return reservedAs(name) != nil }

// reservedAs returns the entry of the list that a name matches, or nil.
func reservedAs(name []byte) *Reserved {
	if !mayBeReserved(name) {
		return nil
	}
	for i := range ReservedHeaders {
		if r := &ReservedHeaders[i]; r.is(name) {
			return r
		}
	}
	return nil
}

// mayBeReserved looks at two bytes: all entries begin with x and a separator, or with fo, and
// most headers do not.
func mayBeReserved(name []byte) bool {
	if len(name) < 2 {
		return false
	}
	first, second := fold(name[0]), fold(name[1])
	return first == 'x' && second == '-' || first == 'f' && second == 'o'
}

func (r *Reserved) is(name []byte) bool {
	if len(name) < len(r.Name) || !r.Family && len(name) > len(r.Name) {
		return false
	}
	for i := range len(r.Name) {
		if fold(name[i]) != r.Name[i] {
			return false
		}
	}
	return true
}

// fold maps the spellings of a byte in a name to one.
func fold(c byte) byte {
	switch {
	case c == '_':
		return '-'
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	}
	return c
}

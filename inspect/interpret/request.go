package interpret

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Request is an imagined request. It has no body.
type Request struct {
	Method, Scheme string
	// Host is the authority, with a port if it has one.
	Host string
	// Path begins with a slash and may have a query.
	Path string
	// Headers have names in lower case. Pseudo headers are not among them.
	Headers []Header
}

// Header is one header of a request.
type Header struct {
	Name, Value string
	// filled says that Envoy fills in the value, so that it is not known.
	filled bool
}

// Connection says how a client is connected to a listener.
type Connection struct {
	// To is where the client connects; not valid if that is a name outside of the mesh.
	To netip.AddrPort
	// TLS and Protocols are what a client offers in its handshake.
	TLS       bool
	Protocols []string
	// ServerName is the name that the client asks for in TLS.
	ServerName string
	// Peer are the URIs in the client's certificate; none if it has no certificate.
	Peer []string
}

// clone returns a request whose headers may be changed.
func (r *Request) clone() *Request {
	own := *r
	own.Headers = slices.Clone(r.Headers)
	return &own
}

// value returns the values of a header, joined as Envoy joins them, and whether there are any.
// Pseudo headers are headers, too.
func (r *Request) value(name string) (value string, ok bool) {
	switch name = strings.ToLower(name); name {
	case ":method":
		return r.Method, true
	case ":authority", "host":
		return r.Host, true
	case ":path":
		return r.Path, true
	case ":scheme":
		return r.Scheme, r.Scheme != ""
	}
	var all []string
	for _, h := range r.Headers {
		if h.Name == name {
			all = append(all, h.Value)
		}
	}
	return strings.Join(all, ","), len(all) > 0
}

// readable returns an Unsaid if Envoy fills in the value of a header.
func (r *Request) readable(name string) error {
	name = strings.ToLower(name)
	for _, h := range r.Headers {
		if h.Name == name && h.filled {
			return unsaid("what Envoy writes into the header %q", name)
		}
	}
	return nil
}

// first returns the first value of a header, and how often the header is there.
func (r *Request) first(name string) (value string, n int) {
	for _, h := range r.Headers {
		if h.Name == name {
			if n == 0 {
				value = h.Value
			}
			n++
		}
	}
	return value, n
}

func (r *Request) remove(name string) {
	name = strings.ToLower(name)
	r.Headers = slices.DeleteFunc(r.Headers, func(h Header) bool { return h.Name == name })
}

func (r *Request) set(name, value string) {
	r.remove(name)
	r.Headers = append(r.Headers, Header{Name: strings.ToLower(name), Value: value})
}

// path returns the path without its query.
func (r *Request) path() string {
	path, _, _ := strings.Cut(r.Path, "?")
	return path
}

// setPath replaces the path and keeps the query.
func (r *Request) setPath(path string) {
	if _, query, ok := strings.Cut(r.Path, "?"); ok {
		path += "?" + query
	}
	r.Path = path
}

// plain reports whether a path is the same after every normalisation that Envoy knows: it has no
// escapes, no backslashes, no dot segments and no repeated slashes.
func plain(path string) bool {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "%\\") || strings.Contains(path, "//") {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return (&url.URL{Path: path}).EscapedPath() == path
}

package engine

import "slices"

// headerList holds the headers that a program reads, in the order in which requests hold
// them. The first ones are needed by every decision, the others only by few.
type headerList struct {
	names []string
	early int
}

// add appends the names that are not in the list yet.
func (l *headerList) add(names ...string) {
	for _, n := range names {
		if !slices.Contains(l.names, n) {
			l.names = append(l.names, n)
		}
	}
}

// index returns the index of a name that has been added.
func (l *headerList) index(name string) int { return slices.Index(l.names, name) }

// header returns the value of a header. known is false if the header has not been read yet.
// The value is nil if the header was not sent.
func (r *Request) header(i int) (value []byte, known bool) {
	if i >= len(r.Headers) {
		return nil, false
	}
	return r.Headers[i], true
}

// Names that programs read in addition to those of their plugins.
const (
	methodHeader     = ":method"
	typeHeader       = "content-type"
	lengthHeader     = "content-length"
	upgradeHeader    = "upgrade"
	connectionHeader = "connection"
	wsKeyHeader      = "sec-websocket-key"
	wsVersionHeader  = "sec-websocket-version"
)

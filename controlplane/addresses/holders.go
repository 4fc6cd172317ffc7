package addresses

import (
	"maps"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// named are the tags that VirtualOutbounds give names to, by host and port.
type named map[string]map[uint32]string

func namedBy(names []mesh.Name) named {
	out := named{}
	for _, n := range names {
		if out[n.Host] == nil {
			out[n.Host] = map[uint32]string{}
		}
		out[n.Host][n.Port] = n.Tags.String()
	}
	return out
}

// held returns the holders of the ports of a host name after was, when its ports lead to these
// tags, and whether that is a change. A holder that is away for a short time finds its name again:
// another one becomes the holder only if the name has led there for unusedLife.
func held(was map[uint32]mesh.Holder, leads map[uint32]string, now time.Time) (next map[uint32]mesh.Holder, changed bool) {
	next = make(map[uint32]mesh.Holder, len(was)+len(leads))
	maps.Copy(next, was)
	for port, tags := range leads {
		h, is := was[port]
		switch {
		case !is:
			h = mesh.Holder{Tags: tags}
		case h.Tags == tags:
			h.Gone = time.Time{}
		case h.Gone.IsZero():
			h.Gone = now.UTC()
		case now.Sub(h.Gone) > unusedLife:
			h = mesh.Holder{Tags: tags}
		}
		next[port] = h
	}
	// Whoever chooses the tags of a proxy may choose ports, too.
	for port := range next {
		if _, is := leads[port]; !is && len(next) > mesh.MaxHolders {
			delete(next, port)
		}
	}
	for port := range next {
		if _, is := was[port]; !is && len(next) > mesh.MaxHolders {
			delete(next, port)
		}
	}
	return next, !maps.Equal(next, was)
}

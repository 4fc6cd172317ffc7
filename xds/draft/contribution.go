package draft

import (
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
)

// mark begins the names of what policies contribute. The value of no tag has it, so a
// service can be called as it likes and is never taken for something else.
const mark = "@"

// Marked is a name that no service, listener or secret of the mesh itself has.
func Marked(name string) string { return mark + name }

// IsMarked reports whether a name was made by [Marked].
func IsMarked(name string) bool { return strings.HasPrefix(name, mark) }

// Contribution is what a policy adds to the proxies that it is chosen for. Names are
// [Marked]. Clusters bring their endpoints along.
type Contribution struct {
	// Mesh is the name of the mesh.
	Mesh      string
	Clusters  []*clusterv3.Cluster
	Listeners []*listenerv3.Listener
	Secrets   []*tlsv3.Secret
}

// Origins of finished resources.
const (
	OriginInbound     = "inbound"
	OriginOutbound    = "outbound"
	OriginTransparent = "transparent"
	OriginContributed = "contributed"
)

// Finished is a cluster, a listener or a route table of a proxy that everybody is done
// with, while the raw stage has it.
type Finished struct {
	// Origin says what it is for.
	Origin string
	// Proto is the caller's own: it may be edited, or replaced by another one of the
	// same type and name.
	Proto proto.Message
	// Removed takes it away.
	Removed bool
}

package draft

import (
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
)

// mark begins the names of what policies contribute. No tag value contains it, so a service
// may have any name and is never confused with something else.
const mark = "@"

// Marked returns a name that no service, listener or secret of the mesh itself has.
func Marked(name string) string { return mark + name }

// IsMarked reports whether [Marked] made a name.
func IsMarked(name string) bool { return strings.HasPrefix(name, mark) }

// Contribution is what a policy adds to the proxies that it is chosen for. The names are
// [Marked]. Clusters contain their endpoints.
type Contribution struct {
	// Mesh is the name of the mesh.
	Mesh      string
	Clusters  []*clusterv3.Cluster
	Listeners []*listenerv3.Listener
	Secrets   []*tlsv3.Secret
}

// These are the origins of finished resources.
const (
	OriginInbound     = "inbound"
	OriginOutbound    = "outbound"
	OriginTransparent = "transparent"
	OriginContributed = "contributed"
)

// Finished is a cluster, a listener or a route table of a proxy after all other edits, as the
// raw stage gets it.
type Finished struct {
	// Origin says what the resource is for.
	Origin string
	// Proto belongs to the caller. It may be edited, or replaced with another message of the
	// same type and name.
	Proto proto.Message
	// Removed makes the planner omit the resource.
	Removed bool
	// Left says what of the patch was left out. The resource is used without it, and the proxy
	// shows why.
	Left []error
}

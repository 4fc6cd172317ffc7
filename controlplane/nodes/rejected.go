package nodes

import (
	"strings"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// Rejected converts what a proxy rejects into the form in which it is shown. An agent names what
// its proxy refused of a response; the rest of it is in force.
func Rejected(all []snapshot.Rejection) []insight.Rejected {
	out := make([]insight.Rejected, 0, len(all))
	for _, r := range all {
		out = append(out, insight.Rejected{Type: short(r.Type), Resources: server.Meant(r.Error, r.Resources), Error: r.Error})
	}
	return out
}

// short returns the last part of the name of a type: Cluster, Listener, Secret.
func short(t resource.TypeURL) string {
	return string(t[strings.LastIndexByte(string(t), '.')+1:])
}

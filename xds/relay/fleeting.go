package relay

import (
	"bytes"
	"strings"

	"github.com/meshgate/meshgate/xds/reserved"
	"github.com/meshgate/meshgate/xds/resource"
)

// isFleeting reports whether a resource is a secret that is on no disk.
func isFleeting(r *resource.Resource) bool {
	return r.Type == resource.Secret && strings.HasPrefix(r.Name, reserved.Fleeting)
}

// asksForFleeting reports whether a cluster may ask for such a secret. A cluster that does, and of
// which the secret is missing, holds up everything else until Envoy gives up waiting for it. So it
// is not taken from the disk, and there is no such cluster until the control plane is in reach.
func asksForFleeting(r *resource.Resource) bool {
	return r.Type == resource.Cluster && bytes.Contains(r.Body, []byte(reserved.Fleeting))
}

package sidecar

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// apart is a part of the names of all clusters that do not simply stand for a service. No tag
// value contains it. So a service may have any name, even one like the cluster of a workload,
// and no request goes to the wrong cluster.
const apart = "@"

// ClusterName returns the name of the cluster of a destination: the service alone or, with
// further tags, the service and a hash of all tags.
func ClusterName(tags mesh.Tags) string {
	service := tags.Service()
	if len(tags) == 1 {
		return service
	}
	sum := sha256.Sum256([]byte(tags.String()))
	return service + apart + hex.EncodeToString(sum[:8])
}

// sniMesh is the key of the mesh in a server name.
const sniMesh = "mesh"

// SNI returns the server name of connections to a destination: the service with the other tags
// and the mesh, keys sorted. Of a long one, and of one with a tag that has the key of the mesh, it
// is a hash. No resolver ever sees it.
func SNI(meshName string, tags mesh.Tags) string {
	rest := maps.Clone(tags)
	delete(rest, mesh.TagService)
	own, clashes := rest[sniMesh]
	rest[sniMesh] = meshName
	name := tags.Service() + "{" + rest.String() + "}"
	if clashes {
		name += own
	} else if len(name) < 255 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "a" + hex.EncodeToString(sum[:8]) + "." + tags.Service() + "." + meshName
}

// These begin the names of listeners and route tables, and say what each is for.
const (
	inboundPrefix  = "inbound:"
	outboundPrefix = "outbound:"
	gatewayPrefix  = "gateway:"
)

// localPrefix begins the names of the clusters of workloads.
const localPrefix = apart + "localhost:"

func inboundName(address string, port uint32) string {
	return inboundPrefix + hostPort(address, port)
}

func outboundName(address string, port uint32) string {
	return outboundPrefix + hostPort(address, port)
}

// localCluster returns the name of the cluster of the workload.
func localCluster(port uint32) string {
	return localPrefix + strconv.FormatUint(uint64(port), 10)
}

func hostPort(address string, port uint32) string {
	return net.JoinHostPort(address, strconv.FormatUint(uint64(port), 10))
}

// clusterStat returns the statistics name of a cluster. It contains the words of the cluster's
// name without the mark.
func clusterStat(name string) string {
	return statName(strings.ReplaceAll(strings.TrimPrefix(name, apart), apart, "-"))
}

// statName makes a name fit for statistics, in which dots are separators.
func statName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, name)
}

// tagsOf parses the canonical form of tags, which keys contain.
func tagsOf(canonical string) mesh.Tags {
	tags := mesh.Tags{}
	for pair := range strings.SplitSeq(canonical, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			tags[k] = v
		}
	}
	return tags
}

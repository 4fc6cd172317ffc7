// Package directing is how a connection with direct access to an instance of a service is led to
// the cluster for it.
//
// A listener cannot see whether a connection was redirected to the proxy as it left the machine or
// as it arrived, and what arrives must not be passed on. The port to which it was redirected tells
// that. So it ends the name of the cluster, and there is a cluster for the port of what leaves
// alone. The agent of a proxy lets no other listener have connections choose their clusters.
package directing

import (
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	valuev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	"google.golang.org/protobuf/proto"
)

const (
	// Prefix begins the names of the clusters. No service has such a name, because no tag value
	// contains its mark.
	Prefix = "@direct_access"
	// Chosen is the key of the value of a connection by which Envoy chooses its cluster.
	Chosen = "envoy.tcp_proxy.cluster"
	// redirected is the port to which a connection was redirected, and not the one that was called.
	redirected = ":%DOWNSTREAM_DIRECT_LOCAL_PORT%"
)

// Group returns the name of the clusters for a service without their ports; an empty service stands
// for all that are called in clear text.
func Group(service string) string {
	if service == "" {
		return Prefix
	}
	return Prefix + ":" + service
}

// Cluster returns the name of the cluster of a group for connections that were redirected to a port.
func Cluster(group string, port uint32) string {
	return group + ":" + strconv.FormatUint(uint64(port), 10)
}

// Choice has connections led to the cluster of a group for the port to which they were redirected.
func Choice(group string) *valuev3.FilterStateValue {
	return &valuev3.FilterStateValue{
		Key: &valuev3.FilterStateValue_ObjectKey{ObjectKey: Chosen},
		Value: &valuev3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: group + redirected},
			}},
		}},
	}
}

// GroupOf returns the group of a [Choice], and whether a value is one and nothing else.
func GroupOf(v *valuev3.FilterStateValue) (group string, is bool) {
	group, is = strings.CutSuffix(v.GetFormatString().GetTextFormatSource().GetInlineString(), redirected)
	return group, is && strings.HasPrefix(group, Prefix) && !strings.Contains(group, "%") && proto.Equal(v, Choice(group))
}

// IsChoice reports whether a message is a [Choice] and nothing else.
func IsChoice(body []byte) bool {
	v := new(valuev3.FilterStateValue)
	if proto.Unmarshal(body, v) != nil {
		return false
	}
	_, is := GroupOf(v)
	return is
}

package server_test

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// checked returns a cluster whose health check contains a password.
func checked(name, password string) *resource.Resource {
	return xdstest.Freeze(resource.Cluster, name, &clusterv3.Cluster{Name: name, HealthChecks: []*corev3.HealthCheck{{HealthChecker: &corev3.HealthCheck_HttpHealthCheck_{
		HttpHealthCheck: &corev3.HealthCheck_HttpHealthCheck{Path: "/", RequestHeadersToAdd: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "authorization", Value: password}}}},
	}}}})
}

// TestRefusalsQuoteNoPassword: Envoy prints what it refuses. A value that dumps conceal must
// not appear in that text either.
func TestRefusalsQuoteNoPassword(t *testing.T) {
	const password = `Basic c3lzdGVt"OnNlY3JldA==`
	for name, spelling := range map[string]string{
		"as it is": password, "in a message": strings.ReplaceAll(password, `"`, `\"`), "in a URL": url.QueryEscape(password), "in hex": hex.EncodeToString([]byte(password)),
		"cut off":   password[:9] + "...(truncated)",
		"in base64": base64.StdEncoding.EncodeToString([]byte("ab" + password + "c")), "": "",
	} {
		for who, relay := range map[string]bool{"an Envoy": false, "an agent": true} {
			r := setup(t, nil)
			said := `Error adding/updating cluster(s) b: Proto constraint validation failed: name: "b" value: "` + spelling + `"`
			r.dial(t, xdstest.Options{Relay: relay, Refuse: func(u resource.TypeURL, name string) string {
				if u == resource.Cluster && name == "b" {
					return said
				}
				return ""
			}})
			r.publish(clusterA, checked("b", password), checked("bb", "another"), endA, listener, routesA)
			r.waitFor(t, func(p snapshot.Progress) bool { return len(p.Rejected) == 1 })
			p := r.snaps.Progress(r.rev)
			kept, conceals := p.Rejected[0].Error, "b: the proxy refused it and quotes what nobody may read; its log says why"
			if spelling == "" {
				conceals = said
			}
			if kept != conceals {
				t.Errorf("%s of %s: %q", name, who, kept)
			}
		}
	}
}

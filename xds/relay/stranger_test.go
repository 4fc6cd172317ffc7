package relay_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	bufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// layers requests two layers of runtime values.
const layers = `
layered_runtime:
  layers:
  - {name: one, rtds_layer: {name: one, rtds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: %[1]s}}}
  - {name: two, rtds_layer: {name: two, rtds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: %[1]s}}}
`

// These are timeouts of Envoy. never is longer than the test waits, soon is shorter.
const never, soon = 10 * patience, time.Second

// TestTypesThatAreNotServed: with the delta variant, an Envoy that asks for runtime layers
// starts at once, because it is told that there are none. The other variant cannot express
// that, so there the Envoy goes on after its initial_fetch_timeout. A listener that asks for
// the configuration of a filter does the same in both variants: no answer may stop its timer.
func TestTypesThatAreNotServed(t *testing.T) {
	for _, tt := range []struct {
		variant    string
		extensions bool
		timeout    time.Duration
	}{
		{"DELTA_GRPC", false, never},
		{"GRPC", false, soon},
		{"DELTA_GRPC", true, soon},
		{"GRPC", true, soon},
	} {
		t.Run(fmt.Sprintf("%s, extensions %t", tt.variant, tt.extensions), func(t *testing.T) {
			dir, err := os.MkdirTemp("", "stranger") // short enough for a socket path
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			port := freePort(t)
			client := &http.Client{Timeout: patience, Transport: &http.Transport{}}
			t.Cleanup(client.CloseIdleConnections)
			p := startPlane(t, "127.0.0.1:0")
			in := xdstest.Listener("in", port, "r")
			text := fmt.Sprintf(bootstrap, node, filepath.Join(dir, "admin.sock"), onTCP(p.addr))
			text = strings.Replace(text, "DELTA_GRPC", tt.variant, 1)
			if tt.extensions {
				in = asking(t, in, tt.timeout)
			} else {
				text += fmt.Sprintf(layers, fmt.Sprintf("%.0fs", tt.timeout.Seconds()))
			}
			rev := p.publish(in, xdstest.Routes("r", "", 418))
			startEnvoyWith(t, dir, text)
			untilAnswer(t, client, dir, port, "418 ")
			if got := p.settle(t, rev); len(got.Rejected) != 0 {
				t.Errorf("progress %+v", got)
			}
		})
	}
}

// asking adds a filter to a listener that requests its configuration.
func asking(t *testing.T, r *resource.Resource, timeout time.Duration) *resource.Resource {
	t.Helper()
	l, manager := &listenerv3.Listener{}, &hcmv3.HttpConnectionManager{}
	if err := proto.Unmarshal(r.Body, l); err != nil {
		t.Fatal(err)
	}
	config := l.FilterChains[0].Filters[0].GetTypedConfig()
	if err := config.UnmarshalTo(manager); err != nil {
		t.Fatal(err)
	}
	standard, err := anypb.New(&bufferv3.Buffer{MaxRequestBytes: wrapperspb.UInt32(1 << 10)})
	if err != nil {
		t.Fatal(err)
	}
	manager.HttpFilters = append([]*hcmv3.HttpFilter{{
		Name: "asked-for", ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: &corev3.ExtensionConfigSource{
			ConfigSource: &corev3.ConfigSource{
				ResourceApiVersion:    corev3.ApiVersion_V3,
				ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
				InitialFetchTimeout:   durationpb.New(timeout),
			},
			DefaultConfig: standard, TypeUrls: []string{standard.TypeUrl},
		}},
	}}, manager.HttpFilters...)
	if err := config.MarshalFrom(manager); err != nil {
		t.Fatal(err)
	}
	return xdstest.Freeze(resource.Listener, r.Name, l)
}

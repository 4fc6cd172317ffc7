package concealed_test

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/xds/concealed"
)

func pack(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestValues: exactly the values of health checks, and the headers of them and of Envoy's own
// calls, are found, also inside extensions.
func TestValues(t *testing.T) {
	header := func(v string) *corev3.HeaderValue { return &corev3.HeaderValue{Key: "seen", Value: v} }
	check := &clusterv3.Cluster{HealthChecks: []*corev3.HealthCheck{{HealthChecker: &corev3.HealthCheck_HttpHealthCheck_{HttpHealthCheck: &corev3.HealthCheck_HttpHealthCheck{
		Path: "seen", RequestHeadersToAdd: []*corev3.HeaderValueOption{{Header: header("a")}, {Header: &corev3.HeaderValue{RawValue: []byte("b")}}},
	}}}}}
	tracing := &tracev3.OpenTelemetryConfig{HttpService: &corev3.HttpService{RequestHeadersToAdd: []*corev3.HeaderValueOption{{Header: header("c")}}},
		GrpcService: &corev3.GrpcService{InitialMetadata: []*corev3.HeaderValue{header("d")}}}
	listener := &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, &hcmv3.HttpConnectionManager{
		Tracing:     &hcmv3.HttpConnectionManager_Tracing{Provider: &tracev3.Tracing_Http{ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: pack(t, tracing)}}},
		HttpFilters: []*hcmv3.HttpFilter{{ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(t, &routerv3.Router{})}}},
	})}}}}}}
	text := func(v string) *corev3.HealthCheck_Payload {
		return &corev3.HealthCheck_Payload{Payload: &corev3.HealthCheck_Payload_Text{Text: v}}
	}
	binary := &corev3.HealthCheck_Payload{Payload: &corev3.HealthCheck_Payload_Binary{Binary: []byte("g")}}
	exchange := &clusterv3.Cluster{HealthChecks: []*corev3.HealthCheck{{HealthChecker: &corev3.HealthCheck_TcpHealthCheck_{TcpHealthCheck: &corev3.HealthCheck_TcpHealthCheck{
		Send: text("e"), Receive: []*corev3.HealthCheck_Payload{text("f"), binary},
	}}}}}
	table := &routev3.RouteConfiguration{
		RequestHeadersToAdd:  []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "connection", Value: "seen"}}, {Header: &corev3.HeaderValue{Key: "authorization", Value: "h"}}},
		ResponseHeadersToAdd: []*corev3.HeaderValueOption{{Header: header("seen")}},
	}
	for want, m := range map[string]proto.Message{"h": table, "a b": check, "c d": listener, "e f g": exchange, "": &corev3.HeaderValueOption{Header: header("seen")}} {
		a := pack(t, m)
		got, err := concealed.Values(a.GetTypeUrl(), a.GetValue())
		slices.Sort(got)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q %v, want %q", got, err, want)
		}
	}
	for _, a := range []*anypb.Any{{TypeUrl: "type.googleapis.com/nobody.knows"}, {TypeUrl: pack(t, check).GetTypeUrl(), Value: []byte{0xff}}} {
		if _, err := concealed.Values(a.GetTypeUrl(), a.GetValue()); err == nil {
			t.Errorf("%s is looked into", a.GetTypeUrl())
		}
	}
}

// TestQuotes: a value is found in any spelling, and other values are not.
func TestQuotes(t *testing.T) {
	for _, value := range []string{"Basic c3lzdGVtOnNlY3JldA==", "Ü\"\\\n\x01 &<>+/?", "hunter2", "abc"} {
		sum := []byte(value)
		for _, text := range []string{
			value, url.QueryEscape(value), url.PathEscape(value), hex.EncodeToString(sum), strings.ToUpper(hex.EncodeToString(sum)),
			base64.StdEncoding.EncodeToString(sum), base64.URLEncoding.EncodeToString(append([]byte("abc"), sum...)),
		} {
			if (len(value) > 5 || !strings.Contains(text, "YWJjYWJj")) && !concealed.Quotes("before "+text+" after", []string{"", "other", value}) {
				t.Errorf("%q is not found in %q", value, text)
			}
		}
		if concealed.Quotes("before and after", []string{"", value}) || concealed.Quotes("before", nil) {
			t.Errorf("%q is found where it is not", value)
		}
	}
	const cut = "...(truncated)"
	for text, want := range map[string]bool{
		"value: hunt" + cut: true, "value: hu" + cut: true, "value: h" + cut: false, "value: hunt": false, cut: false,
		"value: hunter" + cut + "; and more": true, "hunt is on" + cut: false, "value: 68756E" + cut: true,
	} {
		if concealed.Quotes(text, []string{"", "hunter2"}) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
	if !concealed.Quotes(`value: "\303\234\"\\\n\001"`, []string{"Ü\"\\\n\x01"}) || !concealed.Quotes(`"\u0026\n"`, []string{"&\n"}) {
		t.Error("it is not found as messages and JSON quote it")
	}
}

package gateway

import (
	"errors"
	"net"
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// Tracing says where gateways send their spans, in OTLP over HTTP. The zero value
// traces nothing; the headers of a trace that a client began then pass as they are.
type Tracing struct {
	// Collector is the server; a zero Host traces nothing.
	Collector Endpoint
	// TLS says that it is spoken to in TLS, with a certificate that RootsFile signs.
	TLS bool
	// Path of the requests.
	Path string
	// Sample is the share of requests, in per cent, that are traced. A client can keep
	// its own out by its traceparent, but not have more of them traced.
	Sample float64
}

func (t Tracing) on() bool { return t.Collector.Host != "" }

const (
	// tracingCluster is the name of the cluster of the collector.
	tracingCluster = "tracing"
	tracingTimeout = 5 * time.Second
	// tracingService is what gateways call themselves in traces.
	tracingService = "meshgate-gateway"
)

// tracingKey is what the cluster of the collector reads.
type tracingKey struct {
	Tracing
	roots string
}

// collectorCluster reaches the collector. Without it spans are lost, and nothing else.
func collectorCluster(k tracingKey) (*resource.Resource, error) {
	c := single(k.Collector.Host, k.Collector.Port, tracingTimeout)
	if err := speak(c, httpOptions(false)); err != nil {
		return nil, err
	}
	if c.GetType() == clusterv3.Cluster_STRICT_DNS {
		resolver, err := plan.Resolver()
		if err != nil {
			return nil, err
		}
		c.TypedDnsResolverConfig = resolver
	}
	c.Name = tracingCluster
	c.LoadAssignment.ClusterName = c.Name
	if !k.TLS {
		return plan.Freeze(resource.Cluster, c.Name, c)
	}
	if k.roots == "" {
		return nil, errors.New("the collector of traces cannot be verified: the machine of the proxy has no bundle of authorities")
	}
	name := unbracket(k.Collector.Host)
	socket, err := plan.Pack(&tlsv3.UpstreamTlsContext{
		Sni: serverName(name),
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsParams:     &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2},
			AlpnProtocols: []string{"http/1.1"},
			ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
				TrustedCa:                 &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: k.roots}},
				MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{subjectAltName(name)},
			}},
		},
	})
	if err != nil {
		return nil, err
	}
	c.TransportSocket = transportSocket(socket)
	return plan.Freeze(resource.Cluster, c.Name, c)
}

// traced is the tracing of a listener, nil if there is none. Paths are left out of
// spans: they may hold tokens and keys, and what is in a query always may.
func (t Tracing) traced() (*hcmv3.HttpConnectionManager_Tracing, error) {
	if !t.on() {
		return nil, nil
	}
	scheme := "http://"
	if t.TLS {
		scheme = "https://"
	}
	provider, err := plan.Pack(&tracev3.OpenTelemetryConfig{
		ServiceName: tracingService,
		HttpService: &corev3.HttpService{HttpUri: &corev3.HttpUri{
			Uri:              scheme + net.JoinHostPort(unbracket(t.Collector.Host), strconv.FormatUint(uint64(t.Collector.Port), 10)) + t.Path,
			Timeout:          durationpb.New(tracingTimeout),
			HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: tracingCluster},
		}},
	})
	if err != nil {
		return nil, err
	}
	return &hcmv3.HttpConnectionManager_Tracing{
		ClientSampling: &typev3.Percent{}, RandomSampling: &typev3.Percent{Value: t.Sample}, OverallSampling: &typev3.Percent{Value: 100},
		MaxPathTagLength: wrapperspb.UInt32(0),
		Provider: &tracev3.Tracing_Http{
			Name: "envoy.tracers.opentelemetry", ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: provider},
		},
	}, nil
}

package plan

import tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

// TLSVersions are what proxies speak as clients, and to each other. Envoy's clients stop
// at TLS 1.2 unless they are told otherwise, in which certificates, and with them all tags
// of a workload, can be read on the way.
func TLSVersions() *tlsv3.TlsParameters {
	return &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
	}
}

package plan

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Upgrade reduces the Connection header of an upgrade request to "Upgrade". Envoy passes the
// header on as the client wrote it, and a client could name headers in it that the proxy has
// set, so that the next server drops them (RFC 9110 section 7.6.1). Every route table uses it,
// because requests for which no filter runs carry such headers, too. Other requests have lost
// their Connection header by the time routes add theirs.
func Upgrade() *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: "connection", Value: "Upgrade"},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS,
	}
}

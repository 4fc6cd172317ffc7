package contract

import (
	"crypto/tls"
	"errors"
	"net/url"
)

// DataPlaneID names the data-plane server in its certificate, as a URI. Its clients demand
// it, because the same authority also signs the certificates of the gateways' listeners for
// the same host names, and every gateway has their keys. The authority signs this name only
// for the data-plane server, whose key no proxy gets.
const DataPlaneID = "spiffe://meshgate/data-plane"

// DataPlaneURI is DataPlaneID as it appears in certificates.
func DataPlaneURI() *url.URL {
	return &url.URL{Scheme: "spiffe", Host: "meshgate", Path: "/data-plane"}
}

// ProtocolCertificate is the protocol (ALPN) that a client of the data-plane server offers beside others
// if it shows a client certificate of its own. The server then asks for one of any authority: that the
// client has its key is all that is proved, and the certificate counts as unverified.
const ProtocolCertificate = "meshgate-client-certificate"

// ErrNotDataPlane is the error of [IsDataPlane].
var ErrNotDataPlane = errors.New("the certificate is not that of a data-plane server, " + DataPlaneID + ": another server answers, or a control plane of a version before this one")

// IsDataPlane is for [tls.Config.VerifyConnection] of clients of the data-plane
// server. It adds to the verification by authority and host name.
func IsDataPlane(s tls.ConnectionState) error {
	if len(s.VerifiedChains) == 0 {
		return ErrNotDataPlane
	}
	for _, u := range s.PeerCertificates[0].URIs {
		if u.String() == DataPlaneID {
			return nil
		}
	}
	return ErrNotDataPlane
}

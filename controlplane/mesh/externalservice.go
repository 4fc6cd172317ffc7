package mesh

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/hostname"
	"github.com/meshgate/meshgate/controlplane/model"
)

// ExternalService is the spec of a service outside the mesh that callers know by tags, as
// they know services of the mesh (requirement "ExternalService"). Several with one service tag
// are endpoints of one service.
type ExternalService struct {
	model.Labelled
	Networking *ExternalNetworking `json:"networking,omitempty"`
	// Tags describe the service. They hold the service tag, and may hold the protocol tag.
	Tags Tags `json:"tags,omitempty"`
}

// ExternalNetworking says where a service outside the mesh is.
type ExternalNetworking struct {
	// Address is an IP address or a host name, and a port: HOST:PORT or [IPv6]:PORT.
	Address string       `json:"address,omitempty"`
	TLS     *ExternalTLS `json:"tls,omitempty"`
	// DisableHostDNSEntry leaves out the service's host name among the names that transparent
	// proxies know. The service is then known by its service name alone.
	DisableHostDNSEntry bool `json:"disableHostDNSEntry,omitempty"`
}

// ExternalTLS says how a service outside the mesh proves who it is. It means nothing unless it
// is enabled.
type ExternalTLS struct {
	Enabled bool `json:"enabled,omitempty"`
	// CACert holds the certificates of the authorities that may have signed the service's
	// certificate, in PEM. Those of the caller's machine may have if it is absent.
	CACert *DataSource `json:"caCert,omitempty"`
	// ClientCert is the certificate chain that proxies present to the service, and ClientKey
	// its key, both in PEM. A secret may hold both.
	ClientCert *DataSource `json:"clientCert,omitempty"`
	ClientKey  *DataSource `json:"clientKey,omitempty"`
	// ServerName is the name that is asked for (SNI) and that the certificate must have; the
	// host of the address if it is absent.
	ServerName *string `json:"serverName,omitempty"`
	// AllowRenegotiation lets the service negotiate again during a connection
	// (UpstreamTlsContext.allow_renegotiation).
	AllowRenegotiation bool `json:"allowRenegotiation,omitempty"`
	// SkipHostnameVerification accepts a certificate of any name that CACert has signed, or any
	// authority of the caller's machine if there is no CACert.
	SkipHostnameVerification bool `json:"skipHostnameVerification,omitempty"`
}

// ExternalServices describes the resources. They are sealed because they may contain the key of
// a client.
var ExternalServices = model.Describe(ExternalService{}, model.Kind{
	Name: "external_service", Path: "external-services", Scoping: model.Mesh, Class: model.Config, Sealed: true,
	// A key may stand beside certificates.
	Secrets: []string{
		"/networking/tls/clientKey/inline", "/networking/tls/clientKey/inlineString",
		"/networking/tls/clientCert/inline", "/networking/tls/clientCert/inlineString",
		"/networking/tls/caCert/inline", "/networking/tls/caCert/inlineString",
	},
	Document: &model.Document{
		Type: "ExternalService", Singular: "External Service", Plural: "External Services", Listed: true,
		Validate: func(spec any) []fault.Violation { return spec.(*ExternalService).validate() },
	},
})

const (
	textNoNetworking = "should have networking"
	textNoAddress    = "address can't be empty"
	textUnparsed     = "unable to parse address"
	textNoHost       = "address has to be a valid IP address or a domain name"
	textUnparsedPort = "unable to parse port in address"
	textOwnHost      = "must not be an address of each machine itself, of links or of groups, because it would mean something else at each proxy"
	textSameAddress  = "cannot be the same as networking.address"
	textLocalhost    = "must not be localhost, because it would mean something else at each proxy"
)

// TagSets returns the tags of the service, by which lists are filtered.
func (s *ExternalService) TagSets() []Tags { return []Tags{s.Tags} }

func (s *ExternalService) validate() []fault.Violation {
	var vs violations
	if s.Networking == nil {
		vs.add("networking", textNoNetworking)
	} else {
		vs.external("networking.address", s.Networking.Address)
		vs.externalTLS("networking.tls", s.Networking.TLS)
	}
	if _, ok := s.Tags[TagService]; !ok {
		vs.add("tags", textServiceTag)
	}
	vs.protocol("tags", s.Tags)
	if s.Networking != nil && s.Tags.Service() != "" && s.Tags.Service() == s.Networking.Address {
		vs.add(keyed("tags", TagService), textSameAddress)
	}
	vs.join(ValidateTags("tags", s.Tags))
	return vs
}

// external checks HOST:PORT. Each part is checked even if the whole cannot be parsed, as
// clients expect.
func (vs *violations) external(path, address string) {
	if address == "" {
		vs.add(path, textNoAddress)
		return
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		vs.add(path, textUnparsed)
	}
	ip, noIP := netip.ParseAddr(host)
	switch {
	case noIP == nil && ip.Zone() == "":
		if !hostname.IsElsewhere(ip) {
			vs.add(path, textOwnHost)
		}
	case len(host) > maxHost || !dnsName.MatchString(host) || hostname.EndsInNumber(host):
		vs.add(path, textNoHost)
	case hostname.IsLocal(host):
		vs.add(path, textLocalhost)
	}
	n, err := strconv.ParseUint(port, 10, 32)
	if err != nil {
		vs.add(path, textUnparsedPort)
	}
	vs.port(path, uint32(n))
}

// protocol checks the protocol tag.
func (vs *violations) protocol(path string, tags Tags) {
	if p, ok := tags[TagProtocol]; ok && !slices.Contains(protocols, p) {
		vs.add(keyed(path, TagProtocol), fmt.Sprintf("tag %q has an invalid value %q. Allowed values: %s", TagProtocol, p, strings.Join(protocols, ", ")))
	}
}

// Location returns the host and the port of the service. It reports false for an address that
// no write accepts.
func (s *ExternalService) Location() (host string, port uint32, ok bool) {
	if s.Networking == nil {
		return "", 0, false
	}
	host, text, err := net.SplitHostPort(s.Networking.Address)
	if err != nil {
		return "", 0, false
	}
	port, err = portOf(text)
	return host, port, err == nil && host != ""
}

// Locates returns where the service is, under the service of its tags.
func (s *ExternalService) Locates() []Endpoint {
	host, port, ok := s.Location()
	if !ok {
		return nil
	}
	return []Endpoint{{Address: host, Port: port, Tags: s.Tags, Ready: true}}
}

// Hosts returns the host name by which transparent proxies know the service in addition to that
// of its service name; none if the host is an IP address or the entry is disabled.
func (s *ExternalService) Hosts() []Name {
	host, port, ok := s.Location()
	if host = foldHost(host); !ok || s.Networking.DisableHostDNSEntry || !IsHost(host) {
		return nil
	}
	return []Name{{Host: host, Port: port, Tags: Tags{TagService: s.Tags.Service()}}}
}

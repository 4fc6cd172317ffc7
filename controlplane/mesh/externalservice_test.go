package mesh

import (
	"crypto/elliptic"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func said(s string) *string { return &s }

// TestExternalServiceViolations has the texts that clients compare.
func TestExternalServiceViolations(t *testing.T) {
	pem, err := os.ReadFile("testdata/external-ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	roots := &DataSource{Inline: pem}
	tags := Tags{TagService: "mail", TagProtocol: ProtocolHTTP}
	at := func(address string, tls *ExternalTLS) *ExternalService {
		return &ExternalService{Networking: &ExternalNetworking{Address: address, TLS: tls}, Tags: tags}
	}
	const host = "networking.address: address has to be a valid IP address or a domain name"
	const own = "networking.address: " + textOwnHost
	chain, key := clientOf(t, elliptic.P256())
	weak, weakKey := clientOf(t, elliptic.P224())
	_, other := clientOf(t, elliptic.P256())
	client := func(cert, key *DataSource) *ExternalService {
		return at("mail.example:443", &ExternalTLS{Enabled: true, CACert: roots, ClientCert: cert, ClientKey: key})
	}
	inline := func(b []byte) *DataSource { return &DataSource{Inline: b} }
	for name, c := range map[string]struct {
		spec *ExternalService
		want []string
	}{
		"a name":        {at("mail.example:443", nil), nil},
		"an address":    {at("192.0.2.1:80", nil), nil},
		"IPv6":          {at("[2001:db8::1]:80", nil), nil},
		"TLS":           {at("mail.example:443", &ExternalTLS{Enabled: true, CACert: roots, ServerName: said("mx.example"), AllowRenegotiation: true}), nil},
		"TLS is off":    {at("mail.example:443", &ExternalTLS{}), nil},
		"inline string": {at("mail.example:443", &ExternalTLS{Enabled: true, CACert: &DataSource{InlineString: said(string(pem))}, SkipHostnameVerification: true}), nil},
		"nothing":       {&ExternalService{}, []string{"networking: should have networking", `tags: mandatory tag "mesh.io/service" is missing`}},
		"no address":    {at("", nil), []string{"networking.address: address can't be empty"}},
		"no port": {at("mail.example", nil), []string{
			"networking.address: unable to parse address", host, "networking.address: unable to parse port in address", "networking.address: port must be in the range [1, 65535]",
		}},
		"no host":        {at("..:80", nil), []string{host}},
		"half a number":  {at("0x7f000001:80", nil), []string{host}},
		"a zone":         {at("[fe80::1%eth0]:80", nil), []string{host}},
		"no number":      {at("mail.example:http", nil), []string{"networking.address: unable to parse port in address", "networking.address: port must be in the range [1, 65535]"}},
		"port 0":         {at("mail.example:0", nil), []string{"networking.address: port must be in the range [1, 65535]"}},
		"port too large": {at("mail.example:65536", nil), []string{"networking.address: port must be in the range [1, 65535]"}},
		"loopback":       {at("127.0.0.1:80", nil), []string{own}},
		"loopback, IPv6": {at("[::1]:80", nil), []string{own}},
		"mapped":         {at("[::ffff:127.0.0.1]:80", nil), []string{own}},
		"link-local":     {at("169.254.169.254:80", nil), []string{own}},
		"unspecified":    {at("0.0.0.0:80", nil), []string{own}},
		"multicast":      {at("224.0.0.1:80", nil), []string{own}},
		"localhost":      {at("x.localhost.:80", nil), []string{"networking.address: " + textLocalhost}},
		"no CA":          {at("mail.example:443", &ExternalTLS{Enabled: true}), nil},
		"empty source":   {at("mail.example:443", &ExternalTLS{Enabled: true, CACert: &DataSource{}}), []string{"networking.tls.caCert: data source cannot be empty"}},
		"a secret":       {at("mail.example:443", &ExternalTLS{Enabled: true, CACert: &DataSource{Secret: "x"}}), nil},
		"a file":         {at("mail.example:443", &ExternalTLS{Enabled: true, CACert: &DataSource{File: "/x"}}), []string{"networking.tls.caCert.file: is not supported here: use secret, inline or inlineString"}},
		"two sources":    {at("mail.example:443", &ExternalTLS{Enabled: true, CACert: &DataSource{Secret: "x", Inline: pem}}), []string{"networking.tls.caCert: exactly one data source has to be chosen"}},
		"no PEM":         {at("mail.example:443", &ExternalTLS{Enabled: true, CACert: &DataSource{InlineString: said("x")}}), []string{"networking.tls.caCert: must hold certificates in PEM"}},
		"too long":       {at("mail.example:443", &ExternalTLS{Enabled: true, CACert: &DataSource{Inline: make([]byte, maxRoots+1)}}), []string{"networking.tls.caCert: must not have more than 262144 bytes"}},
		"half a CA":      {at("mail.example:443", &ExternalTLS{Enabled: true, CACert: inline(append(slices.Clip(pem), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...))}), []string{"networking.tls.caCert: must hold certificates in PEM"}},
		"a client":       {client(inline(chain), inline(key)), nil},
		"in one secret":  {client(&DataSource{Secret: "x"}, &DataSource{Secret: "x"}), nil},
		"in two sources": {client(inline(chain), &DataSource{Secret: "x"}), nil},
		"no key":         {client(inline(chain), nil), []string{"networking.tls.clientKey: has to be defined, because clientCert and clientKey belong together"}},
		"no certificate": {client(nil, inline(key)), []string{"networking.tls.clientCert: has to be defined, because clientCert and clientKey belong together"}},
		"no pair":        {client(inline(chain), inline(other)), []string{"networking.tls.clientKey: certificate and key do not belong together"}},
		"no key at all":  {client(inline(chain), inline(chain)), []string{"networking.tls.clientKey: certificate and key do not belong together"}},
		"a weak key": {client(inline(weak), inline(weakKey)), []string{
			"networking.tls.clientCert: only RSA keys of at least 2048 bits and ECDSA keys of at least 256 are supported",
		}},
		"a file of a key":   {client(inline(chain), &DataSource{File: "/key"}), []string{"networking.tls.clientKey.file: is not supported here: use secret, inline or inlineString"}},
		"a long chain":      {client(inline(make([]byte, maxClient+1)), inline(key)), []string{"networking.tls.clientCert: must not have more than 65536 bytes"}},
		"empty server name": {at("mail.example:443", &ExternalTLS{ServerName: said("")}), []string{"networking.tls.serverName: cannot be empty"}},
		"bad protocol": {&ExternalService{Networking: at("mail.example:1", nil).Networking, Tags: Tags{TagService: "mail", TagProtocol: "xx"}}, []string{
			`tags["mesh.io/protocol"]: tag "mesh.io/protocol" has an invalid value "xx". Allowed values: grpc, http, http2, kafka, tcp`,
		}},
		"named like its address": {&ExternalService{Networking: at("mail.example:1", nil).Networking, Tags: Tags{TagService: "mail.example:1"}}, []string{
			`tags["mesh.io/service"]: cannot be the same as networking.address`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, v := range c.spec.validate() {
				got = append(got, v.Path+": "+v.Message)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExternalServiceHosts: transparent proxies know the host name, unless it is an address or the
// entry is disabled.
func TestExternalServiceHosts(t *testing.T) {
	for address, want := range map[string][]Name{
		"Mail.example.:443": {{Host: "mail.example", Port: 443, Tags: Tags{TagService: "mail"}}}, "192.0.2.1:443": nil, "[2001:db8::1]:443": nil, "mail.example": nil,
	} {
		s := &ExternalService{Networking: &ExternalNetworking{Address: address}, Tags: Tags{TagService: "mail", "x": "y"}}
		if diff := cmp.Diff(want, s.Hosts()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", address, diff)
		}
		s.Networking.DisableHostDNSEntry = true
		if got := s.Hosts(); got != nil {
			t.Errorf("%s has disabled names %v", address, got)
		}
	}
}

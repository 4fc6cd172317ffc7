package accesslog

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/meshgate/meshgate/e2e/ports"
)

// demanding is an Envoy that demands the name of one service, spiffe://shop/web, of whoever
// connects, and writes the handshakes that fail.
const demanding = `{"static_resources":{
"listeners":[{"name":"l","address":{"socketAddress":{"address":"127.0.0.1","portValue":%[1]d}},"filterChains":[{
	"filters":[{"name":"tcp","typedConfig":{"@type":"type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy","statPrefix":"x","cluster":"nobody",
		"upstreamConnectMode":"ON_DOWNSTREAM_TLS_HANDSHAKE","maxEarlyDataBytes":0,"accessLog":[%[2]s]}}],
	"transportSocket":{"name":"tls","typedConfig":{"@type":"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext","requireClientCertificate":true,"commonTlsContext":{
		"tlsCertificates":[{"certificateChain":{"inlineString":%[3]q},"privateKey":{"inlineString":%[4]q}}],
		"validationContext":{"trustedCa":{"inlineString":%[5]q},"matchTypedSubjectAltNames":[{"sanType":"URI","matcher":{"exact":"spiffe://shop/web"}}]}}}}}]}],
"clusters":[{"name":"nobody","type":"STATIC","connectTimeout":"1s"}]}}`

// authority signs certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		Subject: pkix.Name{CommonName: "root"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign is a certificate with names that are URIs, byte for byte.
func (a *authority) sign(names ...string) *tls.Certificate {
	a.t.Helper()
	var all []asn1.RawValue
	for _, n := range names {
		all = append(all, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(n)})
	}
	san, err := asn1.Marshal(all)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: san}},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, a.key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// demand runs an Envoy that demands a name, and returns its address and what it writes.
func (a *authority) demand(p Place) (address string, written *bufio.Reader) {
	a.t.Helper()
	loggers, err := Handshakes(Settings{Enabled: true}, p)
	if err != nil {
		a.t.Fatal(err)
	}
	logger, err := protojson.Marshal(loggers[0])
	if err != nil {
		a.t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	port, err := ports.Free(1)
	if err != nil {
		a.t.Fatal(err)
	}
	file := filepath.Join(a.t.TempDir(), "envoy.json")
	config := fmt.Appendf(nil, demanding, port[0], logger, block("CERTIFICATE", a.sign("spiffe://shop/mail").Certificate[0]), block("PRIVATE KEY", key), block("CERTIFICATE", a.cert.Raw))
	if err := os.WriteFile(file, config, 0o600); err != nil {
		a.t.Fatal(err)
	}
	envoy := exec.CommandContext(context.Background(), envoyPath(), "-c", file, "--disable-hot-restart", "--concurrency", "1", "-l", "info", "--file-flush-interval-msec", "10")
	out, _ := envoy.StdoutPipe()
	log, _ := envoy.StderrPipe()
	if err := envoy.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		_ = envoy.Process.Kill()
		_ = envoy.Wait() // killed
	})
	for lines := bufio.NewScanner(log); ; {
		if !lines.Scan() {
			a.t.Fatal("envoy ended")
		}
		if strings.Contains(lines.Text(), "starting main dispatch loop") {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	return fmt.Sprintf("127.0.0.1:%d", port[0]), bufio.NewReader(out)
}

// knock shakes hands, with a certificate or none, and stays until the other side ends it.
func knock(t *testing.T, address string, certs ...*tls.Certificate) (from string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	config := &tls.Config{InsecureSkipVerify: true}
	if len(certs) > 0 {
		// Of others the package asks first whether it can read them.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certs[0], nil }
	}
	_ = tls.Client(conn, config).Handshake() // what comes of it is in the log
	_, _ = io.Copy(io.Discard, conn)
	return conn.LocalAddr().String()
}

// before is what is written until the line of a client.
func before(t *testing.T, written *bufio.Reader, client string) (out string) {
	t.Helper()
	for {
		line, err := written.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"client":"`+client+`"`) {
			return out
		}
		out += line
	}
}

// A certificate that was signed for the mesh may have any names, and very many. What is
// written of it is one object in one line, is not longer than what an operator reads, and
// has the names until the first sign that cannot stand in JSON as it is. Handshakes that
// fail for another reason, and those that succeed, are not written.
func TestCertificatesOfStrangersInTheLog(t *testing.T) {
	a := newAuthority(t)
	address, written := a.demand(Place{Mesh: `sh"op'%\1`, Service: "mail-1.x", Inbound: true, TCP: true})
	many := make([]string, 1500)
	for i := range many {
		many[i] = fmt.Sprintf("spiffe://shop/a-service-with-a-long-name-%d", i)
	}
	const begin = "SAN matcher, certificate SANs are ["
	for name, tc := range map[string]struct {
		names []string
		want  string // what details begin with, or are, if it ends with TLS_error_end
	}{
		"another's":       {[]string{"mesh://mesh.io/service/other", "spiffe://shop/other"}, begin + "mesh://mesh.io/service/other, spiffe://shop/other]:TLS_error_end"},
		"many":            {many, begin + many[0] + ", " + many[1] + ", "},
		"a long one":      {[]string{strings.Repeat("x", 60000)}, begin + strings.Repeat("x", 900)},
		"an odd one":      {[]string{"spiffe://shop/other", `spiffe://shop/"`}, begin + "spiffe://shop/other, spiffe://shop/"},
		"a backslash":     {[]string{`mesh://a\`, "spiffe://shop/other"}, begin + "mesh://a"},
		"another line":    {[]string{"mesh://a\n{}\n"}, begin + "mesh://a"},
		"a zero":          {[]string{"mesh://a\x00b"}, begin + "mesh://a"},
		"a terminal's":    {[]string{"mesh://a\x1b[2J\x7f"}, begin + "mesh://a"},
		"no UTF-8":        {[]string{"mesh://a\xff\xfe\xc3"}, begin + "mesh://a"},
		"beyond ASCII":    {[]string{"mesh://aé"}, begin + "mesh://a"},
		"a format":        {[]string{`%START_TIME% \1 ' ] ' ? ')% ${x}`}, begin + "%START_TIME% "},
		"a format, plain": {[]string{`%CEL('a')% ' ] ${x} <&>`}, begin + "%CEL('a')% ' ] ${x} <&>]:TLS_error_end"},
		"none":            {nil, begin + "]:TLS_error_end"},
	} {
		t.Run(name, func(t *testing.T) {
			knock(t, address)
			knock(t, address, a.sign("spiffe://shop/web"))
			knock(t, address, newAuthority(t).sign("SAN matcher", "spiffe://shop/other"))
			from := knock(t, address, a.sign(tc.names...))
			line := before(t, written, knock(t, address, a.sign("spiffe://shop/after")))
			if len(line) > 1500 || !utf8.ValidString(line) {
				t.Errorf("%d bytes: %.100q", len(line), line)
			}
			var got map[string]string
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatalf("%v: %.300q", err, line)
			}
			details := got["details"]
			if is := details == tc.want; !is && (strings.HasSuffix(tc.want, "_end") || !strings.HasPrefix(details, tc.want)) {
				t.Errorf("details %q", details)
			}
			if got["client"] != from || got["time"] == "" || got["decision"] != "refused" || got["reason"] != "no_permission" ||
				got["mesh"] != "sh_op___1" || got["service"] != "mail-1.x" || got["direction"] != "inbound" || len(got) != 8 {
				t.Errorf("from %s: %v", from, got)
			}
		})
	}
}

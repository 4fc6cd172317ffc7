package edge

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// authorityOf makes an authority, as PEM, and what issues certificates of it.
func authorityOf(t *testing.T) (text string, issue func(names ...string) tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), func(names ...string) tls.Certificate {
		leaf := &x509.Certificate{
			SerialNumber: big.NewInt(2), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour), DNSNames: names,
		}
		der, err := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
}

// told is a server that tells how it was called; config is nil for cleartext.
func told(t *testing.T, config *tls.Config, probed chan<- string) (port string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := r.Host
		if r.TLS != nil {
			said += "|" + r.TLS.ServerName
		}
		if r.URL.Path == "/health" {
			select {
			case probed <- said:
			default: // the test has what it wanted
			}
		}
		fmt.Fprintf(w, "%s|%s", said, r.Proto)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // handshakes are to fail
	if s.TLS = config; config == nil {
		s.Start()
	} else {
		s.EnableHTTP2 = true
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// shows is a configuration that shows one certificate.
func shows(c tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS13} // which Envoy does not speak by itself
}

// pools are the upstreams of a world, each with one service and two routes: /<name>
// and, with the client's Host, /keep/<name>.
type pools struct {
	*world
	n int
}

func (p *pools) add(name string, s *gateway.Service, u *gateway.Upstream, targets ...string) {
	p.n++
	n := p.n
	u.Name = name + ".test"
	p.put(gateway.Upstreams, id(5, n), 1, u)
	for i, target := range targets {
		p.put(gateway.Targets, id(6, 10*n+i), 1, &gateway.UpstreamTarget{Upstream: id(5, n), Target: target, Weight: 1})
	}
	s.Host = u.Name
	p.put(gateway.Services, id(1, n), 1, s)
	p.put(gateway.Routes, id(2, n), 1, routeSpec(id(1, n), "/"+name))
	kept := routeSpec(id(1, n), "/keep/"+name)
	kept.PreserveHost = true
	p.put(gateway.Routes, id(2, 100+n), 1, kept)
}

// speaking is a service that speaks a protocol and trusts the authority 9,1.
func speaking(protocol string) *gateway.Service {
	s := serviceSpec("")
	s.Protocol = protocol
	if s.TLS() {
		s.Port, s.CACertificates = 443, []string{id(9, 1)}
	}
	return s
}

// heard are the different answers to some requests.
func heard(t *testing.T, address, host, path string) []string {
	t.Helper()
	all := map[string]bool{}
	for range 12 {
		r, body := ask(t, address, host, path)
		if r.StatusCode != http.StatusOK {
			body = strconv.Itoa(r.StatusCode)
		}
		all[body] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// TestTargetsAreCalledByTheirNames runs the plan in an Envoy before servers of two
// names, each with a certificate of its own.
func TestTargetsAreCalledByTheirNames(t *testing.T) {
	authority, issue := authorityOf(t)
	plain1, plain2 := told(t, nil, nil), told(t, nil, nil)
	one, two := told(t, shows(issue("one.localhost")), nil), told(t, shows(issue("two.localhost")), nil)
	own := told(t, shows(issue("mixed.test")), nil)
	dead := strconv.Itoa(int(freePort(t)))

	w := newWorld(t)
	w.put(gateway.CACertificates, id(9, 1), 1, &gateway.CACertificate{Cert: authority})
	p := &pools{world: w}
	none := func() *gateway.Upstream { return &gateway.Upstream{} }
	p.add("plain", speaking("http"), none(), "one.localhost:"+plain1, "two.localhost:"+plain2)
	p.add("addresses", speaking("http"), none(), "127.0.0.1:"+plain1)
	p.add("secure", speaking("https"), none(), "one.localhost:"+one, "two.localhost:"+two)
	p.add("streams", speaking("grpcs"), none(), "one.localhost:"+one, "two.localhost:"+two)
	p.add("mixed", speaking("https"), none(), "one.localhost:"+one, "127.0.0.1:"+own)
	p.add("shown", speaking("https"), &gateway.Upstream{HostHeader: "one.localhost:1"}, "two.localhost:"+two, "one.localhost:"+one)
	p.add("wrong", speaking("https"), none(), "one.localhost:"+two)
	p.add("retried", speaking("https"), none(), "two.localhost:"+dead, "one.localhost:"+one)
	unverified := speaking("https")
	unverified.TLSVerify = new(false)
	p.add("unverified", unverified, none(), "three.localhost:"+two)
	address := serve(t, w)

	for path, want := range map[string][]string{
		"/plain":      {"one.localhost:" + plain1 + "|HTTP/1.1", "two.localhost:" + plain2 + "|HTTP/1.1"},
		"/addresses":  {"addresses.test:9000|HTTP/1.1"},
		"/secure":     {"one.localhost:" + one + "|one.localhost|HTTP/1.1", "two.localhost:" + two + "|two.localhost|HTTP/1.1"},
		"/streams":    {"one.localhost:" + one + "|one.localhost|HTTP/2.0", "two.localhost:" + two + "|two.localhost|HTTP/2.0"},
		"/mixed":      {"mixed.test|mixed.test|HTTP/1.1", "one.localhost:" + one + "|one.localhost|HTTP/1.1"},
		"/shown":      {"one.localhost:1|one.localhost|HTTP/1.1"},
		"/wrong":      {"503"},
		"/retried":    {"one.localhost:" + one + "|one.localhost|HTTP/1.1"},
		"/unverified": {"three.localhost:" + two + "|three.localhost|HTTP/1.1"},
		// The Host is the client's; whom the gateway talks to is not.
		"/keep/plain":  {"two.localhost|HTTP/1.1"},
		"/keep/secure": {"two.localhost|one.localhost|HTTP/1.1", "two.localhost|two.localhost|HTTP/1.1"},
		"/keep/wrong":  {"503"},
	} {
		slices.Sort(want)
		if diff := cmp.Diff(want, heard(t, address, "two.localhost", path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// TestProbesCallTargetsByTheirNames: probes of targets say and ask for what requests
// do, and a target with another certificate than its own gets no requests.
func TestProbesCallTargetsByTheirNames(t *testing.T) {
	authority, issue := authorityOf(t)
	w := newWorld(t)
	w.put(gateway.CACertificates, id(9, 1), 1, &gateway.CACertificate{Cert: authority})
	p := &pools{world: w}
	probing := func(edit func(*gateway.ActiveCheck)) *gateway.Upstream {
		a := gateway.ActiveCheck{
			Type: gateway.CheckHTTPS, Timeout: 5, HTTPPath: "/health", HTTPSVerifyCertificate: true,
			Healthy:   gateway.ProbedHealthy{Interval: 0.1, Successes: 1, HTTPStatuses: []int{200}},
			Unhealthy: gateway.ProbedUnhealthy{Interval: 0.1, HTTPFailures: 1, TCPFailures: 1, Timeouts: 1, HTTPStatuses: []int{500}},
		}
		edit(&a)
		return &gateway.Upstream{Healthchecks: gateway.Healthchecks{Active: a}}
	}
	probed := map[string]chan string{}
	server := func(name string, config *tls.Config) string {
		probed[name] = make(chan string, 1)
		return told(t, config, probed[name])
	}
	own := server("own", shows(issue("own.localhost")))
	p.add("own", speaking("https"), probing(func(*gateway.ActiveCheck) {}), "own.localhost:"+own)
	named := server("named", shows(issue("own.localhost", "probe.test")))
	p.add("named", speaking("https"), probing(func(a *gateway.ActiveCheck) { a.HTTPSSNI = "probe.test" }), "own.localhost:"+named)
	plain := server("plain", nil)
	p.add("plain", speaking("http"), probing(func(a *gateway.ActiveCheck) { a.Type = gateway.CheckHTTP }), "own.localhost:"+plain)
	apart := server("apart", shows(issue("apart.test")))
	p.add("apart", speaking("http"), probing(func(*gateway.ActiveCheck) {}), "own.localhost:"+apart)
	wrong := server("wrong", shows(issue("wrong.test")))
	p.add("wrong", speaking("https"), probing(func(*gateway.ActiveCheck) {}), "own.localhost:"+wrong)
	for n := range p.n {
		s, _ := w.state().Service(id(1, n+1))
		spec := *s.Spec
		spec.CACertificates = []string{id(9, 1)}
		w.put(gateway.Services, id(1, n+1), 1, &spec)
	}
	address := serve(t, w)
	for name, want := range map[string]string{
		"own": "own.localhost:" + own + "|own.localhost", "named": "own.localhost:" + named + "|probe.test",
		"plain": "own.localhost:" + plain, "apart": "own.localhost:" + apart + "|apart.test",
	} {
		select {
		case got := <-probed[name]:
			if got != want {
				t.Errorf("%s: probes say %s, want %s", name, got, want)
			}
		case <-time.After(patience):
			t.Errorf("%s is not probed", name)
		}
	}
	if got := heard(t, address, "x", "/wrong"); !slices.Equal(got, []string{"503"}) {
		t.Errorf("a target with another certificate: %v", got)
	}
	for deadline := time.Now().Add(patience); ; {
		r, body := ask(t, address, "x", "/own")
		if r.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the target never gets requests: %d %s", r.StatusCode, body)
		}
	}
}

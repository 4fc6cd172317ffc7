package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/adminlink"
	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/bootstrap"
	"github.com/meshgate/meshgate/xds/resource"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// joinPlane is a control plane that accepts one sidecar with a token. It has one cluster
// for it, or nothing.
type joinPlane struct {
	trusting []uint16 // what it says of its machine
	links    *adminlink.Server
	server   *httptest.Server
	log      chan string // method and form of each enrolment
	// instances gets the instance of each enrolment.
	instances chan string
	// busy is how many enrolments it does not take now.
	busy atomic.Int32
	// cluster is the body of a cluster called canary; nil for none.
	cluster []byte
}

// Authenticate implements adminlink.Authenticator.
func (*joinPlane) Authenticate(_ context.Context, node, token string) (time.Time, error) {
	if node != "default.web-1" || token != "sidecar.token.x" {
		return time.Time{}, fmt.Errorf("no")
	}
	return time.Time{}, nil
}

type oneADS struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	p *joinPlane
}

// DeltaAggregatedResources answers each type with nothing, except for the cluster.
func (o oneADS) DeltaAggregatedResources(stream discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	for n := 1; ; n++ {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		if req.GetResponseNonce() != "" {
			continue
		}
		m := &discovery.DeltaDiscoveryResponse{TypeUrl: req.GetTypeUrl(), Nonce: fmt.Sprint(n), SystemVersionInfo: "1"}
		if req.GetTypeUrl() == string(resource.Cluster) && o.p.cluster != nil {
			m.Resources = []*discovery.Resource{{Name: "canary", Version: "1", Resource: &anypb.Any{TypeUrl: req.GetTypeUrl(), Value: o.p.cluster}}}
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
}

func newJoinPlane(t *testing.T) *joinPlane {
	t.Helper()
	p := &joinPlane{log: make(chan string, 64), instances: make(chan string, 64)}
	p.links = adminlink.NewServer(adminlink.Options{Auth: p, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	ads := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(ads, oneADS{p: p})
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
			ads.ServeHTTP(w, r)
		case r.URL.Path == adminlink.Path:
			p.links.ServeHTTP(w, r)
		case r.URL.Path == enrol.Path:
			p.enrol(w, r)
		}
	}))
	p.server.EnableHTTP2 = true
	p.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	p.server.TLS = dataPlaneTLS(t, contract.DataPlaneURI())
	p.server.StartTLS()
	t.Cleanup(func() { p.links.Close(); ads.Stop(); p.server.CloseClientConnections(); p.server.Close() })
	return p
}

func (p *joinPlane) enrol(w http.ResponseWriter, r *http.Request) {
	var in enrol.Proxy
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get("Authorization") != "Bearer sidecar.token.x" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	does := r.Method
	if in.Leaving {
		does = "leaving"
	}
	if in.Starting {
		does = "starting"
	}
	if p.busy.Add(-1) >= 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	p.log <- does + " " + in.Mesh + "." + in.Name + " " + in.Resource
	p.instances <- in.Instance
	if r.Method == http.MethodDelete || in.Leaving {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	node := "default.web-1"
	if in.ProxyType == mesh.ProxyEgress {
		node = mesh.ZoneNodeID(in.ProxyType, in.Name)
	}
	boot, err := bootstrap.Render(bootstrap.Config{NodeID: node, Cluster: "web", Relay: in.Relay.Socket, AdminSocket: in.Relay.AdminSocket})
	if err == nil {
		err = json.NewEncoder(w).Encode(enrol.Answer{Node: node, Bootstrap: boot, Trusting: enrol.Trusts(p.trusting)})
	}
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func (p *joinPlane) options(t *testing.T) (Options, *recorder) {
	t.Helper()
	dir, r := shortDir(t), newRecorder()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	for name, text := range map[string]string{"ca.pem": string(ca), "token": "sidecar.token.x\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Options{
		StateDir: dir, Name: "web-1", Address: p.server.URL, Log: slog.New(r), LogLevel: "warning", Concurrency: 1,
		CAFile: filepath.Join(dir, "ca.pem"), TokenFile: filepath.Join(dir, "token"), Drain: Drain{Timeout: time.Second},
		Sidecar: &Sidecar{Mesh: "default", Dataplane: "the dataplane"},
	}, r
}

func envoyBinary(t *testing.T) string {
	t.Helper()
	for _, p := range []string{os.Getenv("ENVOY_PATH"), "../../.tools/envoy"} {
		if info, err := os.Stat(p); err == nil && !info.IsDir() {
			return p
		}
	}
	t.Fatal("this test needs Envoy: run 'make build', or set ENVOY_PATH")
	return ""
}

// withKey returns a cluster with a private key. canary is set to a part of the key.
func withKey(t *testing.T, canary *string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	certDER, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	*canary = strings.Split(keyPEM, "\n")[1]
	chain := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certDER}))
	inline := func(s string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
	}
	tls, err := anypb.New(&tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsCertificates: []*tlsv3.TlsCertificate{{CertificateChain: inline(chain), PrivateKey: inline(keyPEM)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	body, err := proto.Marshal(&clusterv3.Cluster{Name: "canary", TransportSocket: &corev3.TransportSocket{
		Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: tls},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// TestSidecar runs a real Envoy from its registration to its deregistration, and reads its
// configuration over the admin link, which must show no key and no password.
func TestSidecar(t *testing.T) {
	p := newJoinPlane(t)
	var canary string
	p.cluster = withKey(t, &canary)
	o, r := p.options(t)
	o.EnvoyPath = envoyBinary(t)
	a := newAgent(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	select {
	case <-a.Ready():
	case err := <-ended:
		t.Fatalf("ended: %v, log %q", err, r.all())
	case <-time.After(patience):
		t.Fatalf("not ready; log %q", r.all())
	}
	if got := <-p.log; got != "POST default.web-1 the dataplane" {
		t.Errorf("enrolled with %q", got)
	}
	dump := p.dump(t)
	if !strings.Contains(dump, `"canary"`) || !strings.Contains(dump, "[redacted]") {
		t.Errorf("the dump has no redacted secret:\n%s", dump)
	}
	if strings.Contains(dump, canary) {
		t.Error("the dump shows a private key")
	}
	if strings.Contains(dump, a.password) || !strings.Contains(dump, `"Bearer [redacted]"`) {
		t.Error("the dump shows the password of the relay")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := <-p.log; got != "leaving default.web-1 " {
		t.Errorf("drained with %q", got)
	}
	if got := <-p.log; got != "DELETE default.web-1 " {
		t.Errorf("left with %q", got)
	}
	if joined, leaving, left := <-p.instances, <-p.instances, <-p.instances; joined == "" || joined != left || leaving != left || joined == newAgent(t, o).instance {
		t.Errorf("the agent joins as %q and leaves as %q", joined, left)
	}
}

func (p *joinPlane) dump(t *testing.T) string {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		body, err := p.links.Ask(t.Context(), "default.web-1", "/config_dump")
		if err == nil {
			return string(body)
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatal(err)
		}
	}
}

// TestSidecarOptions: names are checked before they become paths.
func TestSidecarOptions(t *testing.T) {
	p := newJoinPlane(t)
	for _, n := range []string{"", "..", "a/b", "A", "-a", "a\n"} {
		o, _ := p.options(t)
		o.Name = n
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "must be 1 to 253") {
			t.Errorf("%q: %v", n, err)
		}
	}
	a := newAgent(t, func() Options { o, _ := p.options(t); return o }())
	if got, want := filepath.Base(a.dir.path), a.NodeID(); got != want || a.Envoy.Replaced != sidecarReplaced {
		t.Errorf("%s, drain %s", got, a.Envoy.Replaced)
	}
}

// TestSidecarLater: a sidecar enrols after a start without the control plane.
func TestSidecarLater(t *testing.T) {
	p := newJoinPlane(t)
	o, r := p.options(t)
	a := newAgent(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a.enrolLater(ctx)
	r.wait(t, "the node is enrolled")
	if got := <-p.log; !strings.HasPrefix(got, "POST") {
		t.Error(got)
	}
}

// TestEgressAppears: an egress says that it starts until its Envoy listens, then until it is heard that it
// does, and nothing any more when it withdraws.
func TestEgressAppears(t *testing.T) {
	p := newJoinPlane(t)
	o, _ := p.options(t)
	o.Name, o.Sidecar = "out", &Sidecar{ZoneType: mesh.ProxyEgress, Dataplane: "the egress"}
	a := newAgent(t, o)
	if _, err := a.enrolFirst(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go a.probe(ctx)
	p.busy.Store(2)
	close(a.ready)
	<-a.probed
	a.withdraw(t.Context())
	for _, want := range []string{"starting .out the egress", "POST .out the egress", "leaving .out "} {
		if got := <-p.log; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	if n := len(p.log); n > 0 || p.busy.Load() >= 0 {
		t.Errorf("it says %d more", n)
	}
	early := newAgent(t, o)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	early.probe(ctx)
	if len(p.log) > 0 {
		t.Errorf("one that leaves before it listens says %q", <-p.log)
	}
}

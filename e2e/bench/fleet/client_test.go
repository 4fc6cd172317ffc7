package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// patience bounds what takes a moment, on a machine with much else to do.
const patience = time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ads is a small delta server that gives every node the same.
type ads struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	t *testing.T

	mu      sync.Mutex
	version int
	table   map[string]map[string]*discovery.Resource
	streams map[*session]bool
	nacks   []string
	acks    int
	told    chan struct{} // something was acknowledged or refused
	deaf    bool          // answers no subscription to listeners
	full    int           // streams that are turned away before there are places
}

type session struct {
	mu    sync.Mutex // of sending
	g     discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	names map[string]map[string]bool
	nonce int
}

func (a *ads) set(url, name string, m proto.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	if a.table[url] == nil {
		a.table[url] = map[string]*discovery.Resource{}
	}
	a.table[url][name] = &discovery.Resource{Name: name, Version: fmt.Sprint(a.version), Resource: pack(a.t, m)}
}

// acknowledged waits until so many messages are, or one was refused. What a client holds, it has not yet
// acknowledged.
func (a *ads) acknowledged(ctx context.Context, messages int64) (acks int64, nacks []string, err error) {
	for {
		a.mu.Lock()
		acks, nacks = int64(a.acks), slices.Clone(a.nacks)
		a.mu.Unlock()
		if acks >= messages || len(nacks) > 0 {
			return acks, nacks, nil
		}
		select {
		case <-a.told:
		case <-ctx.Done():
			return acks, nacks, ctx.Err()
		}
	}
}

// push sends one resource to all streams.
func (a *ads) push(url, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s := range a.streams {
		s.send(url, []*discovery.Resource{a.table[url][name]}, nil)
	}
}

func (s *session) send(url string, add []*discovery.Resource, remove []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nonce++
	_ = s.g.Send(&discovery.DeltaDiscoveryResponse{TypeUrl: url, Nonce: fmt.Sprint(s.nonce), Resources: add, RemovedResources: remove})
}

// DeltaAggregatedResources implements the server.
func (a *ads) DeltaAggregatedResources(g discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	a.mu.Lock()
	full := a.full > 0
	a.full--
	a.mu.Unlock()
	if full {
		return status.Error(codes.ResourceExhausted, "too many streams")
	}
	md, _ := metadata.FromIncomingContext(g.Context())
	s := &session{g: g, names: map[string]map[string]bool{}}
	defer func() {
		a.mu.Lock()
		delete(a.streams, s)
		a.mu.Unlock()
	}()
	for first := true; ; first = false {
		r, err := g.Recv()
		if err != nil {
			return err
		}
		if first {
			want := "token of " + strings.TrimPrefix(r.GetNode().GetId(), "fleet.")
			if got := md.Get("authorization"); len(got) != 1 || got[0] != want {
				return status.Error(codes.Unauthenticated, "a bad token")
			}
			a.mu.Lock()
			a.streams[s] = true
			a.mu.Unlock()
		}
		a.answer(s, r)
	}
}

func (a *ads) answer(s *session, r *discovery.DeltaDiscoveryRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.ErrorDetail != nil {
		a.nacks = append(a.nacks, r.ErrorDetail.Message)
	}
	if r.ResponseNonce != "" {
		a.acks++
		notify(a.told)
		return
	}
	if len(r.ResourceNamesUnsubscribe) > 0 && len(r.ResourceNamesSubscribe) == 0 || a.deaf && r.TypeUrl == typeListener {
		return
	}
	var add []*discovery.Resource
	var remove []string
	names := r.ResourceNamesSubscribe
	if r.TypeUrl == typeCluster || r.TypeUrl == typeListener {
		for n := range maps.Keys(a.table[r.TypeUrl]) {
			names = append(names, n)
		}
	}
	for _, n := range names {
		x := a.table[r.TypeUrl][n]
		switch {
		case x == nil:
			remove = append(remove, n)
		case r.InitialResourceVersions[n] != x.Version:
			add = append(add, x)
		}
	}
	if len(add)+len(remove) > 0 {
		s.send(r.TypeUrl, add, remove)
	}
}

// serverCertificate makes a certificate of a root for the loopback address.
func serverCertificate(t *testing.T, r *root, issuer *ecdsa.PrivateKey) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(7), NotBefore: r.cert.NotBefore, NotAfter: r.cert.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, r.cert, key.Public(), issuer)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func keyOf(t *testing.T, r *root) *ecdsa.PrivateKey {
	t.Helper()
	cert, err := tls.X509KeyPair(r.certPEM, r.keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return cert.PrivateKey.(*ecdsa.PrivateKey)
}

// startFleet starts the server with a small configuration and n clients for it.
func startFleet(t *testing.T, n int) (*ads, *fleet) {
	t.Helper()
	r, err := newRoot(1)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &ads{t: t, table: map[string]map[string]*discovery.Resource{}, streams: map[*session]bool{}, told: make(chan struct{}, 1)}
	for _, name := range []string{"svc-0", "svc-1"} {
		a.set(typeCluster, name, edsCluster(t, name, "", 1))
		a.set(typeEndpoint, name, assignment(name, "127.1.0.1", 10000))
	}
	a.set(typeListener, "l", httpListener(t, "l", "routes"))
	a.set(typeRoute, "routes", &route.RouteConfiguration{Name: "routes"})
	a.set(typeSecret, "identity", &tlsv3.Secret{Name: "identity"})
	a.set(typeSecret, "bundle", &tlsv3.Secret{Name: "bundle"})
	server := grpc.NewServer(grpc.WaitForHandlers(true), grpc.Creds(credentials.NewServerTLSFromCert(ptr(serverCertificate(t, r, keyOf(t, r))))))
	discovery.RegisterAggregatedDiscoveryServiceServer(server, a)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(ln)
	}()
	conf, err := clientTLS(r.certPEM)
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(ln.Addr().String(), "fleet", conf)
	for i := range n {
		f.clients = append(f.clients, newClient(f, i, dataplaneName(i), "token of "+dataplaneName(i)))
	}
	t.Cleanup(func() {
		f.closeAll()
		server.Stop()
		<-served
	})
	return a, f
}

func ptr[T any](v T) *T { return &v }

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// connectAll connects the fleet and waits until all is held.
func connectAll(t *testing.T, f *fleet) {
	t.Helper()
	ctx := within(t, patience)
	g := &goal{complete: true, want: everyone}
	f.aim(g)
	if err := f.openAll(ctx); err != nil {
		t.Fatal(err)
	}
	if err := f.await(ctx, g); err != nil {
		t.Fatal(err)
	}
	if err := f.settle(ctx, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n := len(g.latencies(time.Now())); n != len(f.clients) {
		t.Fatalf("%d latencies", n)
	}
}

func TestConnectHoldsEverything(t *testing.T) {
	a, f := startFleet(t, 5)
	connectAll(t, f)
	if err := f.sane(); err != nil {
		t.Error(err)
	}
	sent := f.traffic()
	for k, want := range map[string]int64{"cds": 10, "eds": 10, "lds": 5, "rds": 5, "sds": 10} {
		if sent.Resources[k] != want {
			t.Errorf("%s: %d resources, want %d", k, sent.Resources[k], want)
		}
	}
	acks, nacks, err := a.acknowledged(within(t, patience), total(sent.Messages))
	if acks != total(sent.Messages) || len(nacks) > 0 {
		t.Errorf("%d acknowledgements of %d messages, refused %v: %v", acks, total(sent.Messages), nacks, err)
	}
}

// TestTurnedAwayComeBack: who found no place comes back and is counted.
func TestTurnedAwayComeBack(t *testing.T) {
	a, f := startFleet(t, 3)
	a.full = 4
	connectAll(t, f)
	if n := f.turns(); n.Times != 4 || !strings.Contains(n.First, "too many streams") {
		t.Errorf("%+v", n)
	}
	if n := f.turns(); n.Times != 0 {
		t.Errorf("counted again: %+v", n)
	}
}

func TestEndpointChangeIsSeen(t *testing.T) {
	a, f := startFleet(t, 3)
	connectAll(t, f)
	has := cached(func(v []byte) (bool, error) { return hasEndpoint(v, "127.1.0.1", 10001) })
	g := &goal{want: everyone, match: func(k kind, h held, v []byte) (bool, error) {
		if k != eds {
			return false, nil
		}
		return has(h, v)
	}}
	f.aim(g)
	before := f.traffic()
	a.push(typeEndpoint, "svc-0") // as it was: no part of the goal
	a.set(typeEndpoint, "svc-0", assignment("svc-0", "127.1.0.1", 10001))
	a.push(typeEndpoint, "svc-0")
	if err := f.await(within(t, patience), g); err != nil {
		t.Fatal(err)
	}
	if d := f.traffic().sub(before); d.Messages["eds"] != 6 || d.Resources["eds"] != 6 {
		t.Errorf("%+v", d)
	}
}

func TestPolicyWantsAllClusters(t *testing.T) {
	a, f := startFleet(t, 1)
	connectAll(t, f)
	g := &goal{want: func(c *client) int { return len(c.table[cds]) }, match: func(k kind, _ held, v []byte) (bool, error) {
		n, err := maxConnections(v)
		return k == cds && n == 9, err
	}}
	f.aim(g)
	a.set(typeCluster, "svc-0", edsCluster(t, "svc-0", "", 9))
	a.set(typeCluster, "svc-1", edsCluster(t, "svc-1", "", 9))
	a.push(typeCluster, "svc-0")
	a.push(typeCluster, "svc-0")
	if err := f.settle(within(t, patience), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n := len(g.latencies(time.Now())); n != 0 {
		t.Fatal("one of two clusters was enough")
	}
	a.push(typeCluster, "svc-1")
	if err := f.await(within(t, patience), g); err != nil {
		t.Fatal(err)
	}
}

func TestReconnectTellsWhatItHolds(t *testing.T) {
	a, f := startFleet(t, 4)
	connectAll(t, f)
	for range 2 {
		g := &goal{probe: true, want: everyone}
		f.aim(g)
		before := f.traffic()
		f.closeAll()
		if err := f.openAll(within(t, patience)); err != nil {
			t.Fatal(err)
		}
		if err := f.await(within(t, patience), g); err != nil {
			t.Fatal(err)
		}
		d := f.traffic().sub(before)
		if total(d.Resources)+d.Removed != 0 || d.Messages["eds"] != 4 || total(d.Messages) != 4 {
			t.Errorf("%+v", d)
		}
	}
	f.closeAll()
	a.set(typeRoute, "routes", &route.RouteConfiguration{Name: "routes", InternalOnlyHeaders: []string{"x"}})
	g := &goal{want: everyone, match: func(k kind, _ held, _ []byte) (bool, error) { return k == rds, nil }}
	f.aim(g)
	if err := f.openAll(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	if err := f.await(within(t, patience), g); err != nil {
		t.Fatal(err)
	}
}

func TestFailuresAreNamed(t *testing.T) {
	t.Run("a refused token", func(t *testing.T) {
		_, f := startFleet(t, 2)
		f.clients[1].token = "wrong"
		g := &goal{complete: true, want: everyone}
		f.aim(g)
		err := f.openAll(within(t, patience))
		if err == nil || !strings.Contains(err.Error(), "client dp-1") || !strings.Contains(err.Error(), "a bad token") {
			t.Fatal(err)
		}
		f.clients[1].token = "token of dp-1"
		if err := f.repair(within(t, patience), patience); err != nil {
			t.Fatal(err)
		}
		if err := f.sane(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("nothing comes", func(t *testing.T) {
		a, f := startFleet(t, 1)
		a.deaf = true
		some := &goal{want: func(*client) int { return 2 }, match: func(k kind, _ held, _ []byte) (bool, error) { return k == eds, nil }}
		f.aim(some)
		if err := f.openAll(within(t, patience)); err != nil {
			t.Fatal(err)
		}
		if err := f.await(within(t, patience), some); err != nil {
			t.Fatal(err)
		}
		g := &goal{complete: true, want: everyone}
		f.aim(g)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		err := f.await(over, g)
		if err == nil || !strings.Contains(err.Error(), "dp-0 met 0 of 1, 2 cds, 2 eds, 0 lds") {
			t.Fatal(err)
		}
	})
	t.Run("nobody answers", func(t *testing.T) {
		_, f := startFleet(t, 1)
		f.address = "127.0.0.1:1"
		if err := f.openAll(within(t, 200*time.Millisecond)); err == nil || !strings.Contains(err.Error(), "client dp-0") {
			t.Fatal(err)
		}
	})
}

func TestRotationIsRecognised(t *testing.T) {
	old, err := newRoot(1)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := newRoot(2)
	if err != nil {
		t.Fatal(err)
	}
	data := func(b []byte) *core.DataSource {
		return &core.DataSource{Specifier: &core.DataSource_InlineBytes{InlineBytes: b}}
	}
	bundle := func(b ...byte) *tlsv3.Secret {
		return &tlsv3.Secret{Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: data(b)}}}
	}
	identity := func(r *root) *tlsv3.Secret {
		leaf := serverCertificate(t, r, keyOf(t, r))
		return &tlsv3.Secret{Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: data(pemCertificate(leaf.Certificate[0]))}}}
	}
	for name, c := range map[string]struct {
		in   *tlsv3.Secret
		want bool
	}{
		"old identity": {identity(old), false},
		"new identity": {identity(fresh), true},
		"old bundle":   {bundle(old.certPEM...), false},
		"new bundle":   {bundle(fresh.certPEM...), true},
		"both":         {bundle(append(append([]byte{}, old.certPEM...), fresh.certPEM...)...), false},
	} {
		if got, err := fresh.carries(marshal(t, c.in)); err != nil || got != c.want {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
	if _, err := fresh.carries(marshal(t, &tlsv3.Secret{Name: "empty"})); err == nil {
		t.Error("an empty secret is no error")
	}
}

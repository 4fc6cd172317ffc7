package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
	"github.com/meshgate/meshgate/xds/xdstest"
)

func TestMisbehaviourEndsTheStream(t *testing.T) {
	for name, tc := range map[string]struct {
		bad  *discovery.DeltaDiscoveryRequest
		n    int
		code codes.Code
	}{
		"other node":     {&discovery.DeltaDiscoveryRequest{Node: &corev3.Node{Id: "x"}, TypeUrl: string(resource.Cluster)}, 1, codes.InvalidArgument},
		"too many names": {&discovery.DeltaDiscoveryRequest{TypeUrl: string(resource.Endpoint), ResourceNamesSubscribe: []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}}, 1, codes.ResourceExhausted},
		"flood":          {&discovery.DeltaDiscoveryRequest{TypeUrl: string(resource.Cluster), ResponseNonce: "unknown"}, 60, codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			r := setup(t, func(c *server.Config) { c.Limits = server.Limits{Names: 8, Burst: 20, Rate: 1} })
			c := started(t, r, xdstest.Options{})
			for range tc.n {
				c.Send(tc.bad)
			}
			c.WaitFor(t, "the end", func(v xdstest.View) bool { return status.Code(v.Err()) == tc.code && v.Err() != nil })
		})
	}
}

// maker makes secrets, after a given number of failures.
type maker struct {
	mu    sync.Mutex
	fails int
	asked int
	body  *resource.Resource
}

func (m *maker) Secret(context.Context, string, string, string) (*resource.Resource, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	if m.fails > 0 {
		m.fails--
		return nil, errors.New("the authority is away")
	}
	return m.body, nil
}

func identity(t *testing.T, serial int64) *resource.Resource {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	inline := func(typ string, b []byte) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: b})}}
	}
	return xdstest.Freeze(resource.Secret, "identity", &tlsv3.Secret{Name: "identity", Type: &tlsv3.Secret_TlsCertificate{
		TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: inline("CERTIFICATE", der), PrivateKey: inline("PRIVATE KEY", raw)},
	}})
}

func TestSecretsAreMadeOnceAskedForAndRenewed(t *testing.T) {
	m := &maker{fails: 2, body: identity(t, 1)}
	r := setup(t, func(c *server.Config) {
		c.Secrets = m
		c.Limits.SecretRetry = time.Millisecond
	})
	r.snaps.Publish(map[string]*resource.Set{nodeID: resource.NewSet(nil, map[string]string{"identity": ""})}, 1)
	c := r.dial(t, xdstest.Options{Relay: true})
	c.Request(resource.Secret).Equals(t, m.body)
	second := identity(t, 2)
	r.srv.PushSecret(nodeID, "", second)
	c.Request(resource.Secret).Equals(t, second)
	// A secret that a proxy would refuse, and print, is not sent.
	r.srv.PushSecret(nodeID, "", xdstest.Freeze(resource.Secret, "identity", &tlsv3.Secret{Name: "identity"}))
	third := identity(t, 3)
	r.srv.PushSecret(nodeID, "", third)
	c.Request(resource.Secret).Equals(t, third)
	if m.asked != 3 {
		t.Fatalf("asked %d times, want 3", m.asked)
	}
}

func TestTrapTextOfARefusedSecretIsNeverKept(t *testing.T) {
	m := &maker{body: identity(t, 1)}
	r := setup(t, func(c *server.Config) { c.Secrets = m })
	r.snaps.Publish(map[string]*resource.Set{nodeID: resource.NewSet(nil, map[string]string{"identity": ""})}, 1)
	c := r.dial(t, xdstest.Options{Relay: true, Reject: func(u resource.TypeURL, names []string) string {
		if u == resource.Secret && len(names) > 0 {
			return "-----BEGIN PRIVATE KEY----- abc"
		}
		return ""
	}})
	c.WaitFor(t, "the refusal", func(v xdstest.View) bool { _, n := v.Answers(); return n == 1 })
	p := r.waitFor(t, func(p snapshot.Progress) bool { return len(p.Rejected) == 1 })
	if p.Rejected[0].Error != "identity: the proxy refused a secret; its log says why" {
		t.Fatalf("progress %+v", p)
	}
}

func TestStateOfTheWorld(t *testing.T) {
	r := setup(t, nil)
	r.publish(clusterA, clusterB, endA, endB)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	g, err := discovery.NewAggregatedDiscoveryServiceClient(r.conn).StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	send := func(m *discovery.DiscoveryRequest) {
		t.Helper()
		if err := g.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	recv := func(u resource.TypeURL, want ...*resource.Resource) *discovery.DiscoveryResponse {
		t.Helper()
		m, err := g.Recv()
		if err != nil {
			t.Fatal(err)
		}
		var bodies, got [][]byte
		for _, x := range want {
			bodies = append(bodies, x.Body)
		}
		for _, a := range m.GetResources() {
			got = append(got, a.GetValue())
		}
		if d := cmp.Diff(bodies, got); d != "" || m.GetTypeUrl() != string(u) {
			t.Fatalf("%s: %s", m.GetTypeUrl(), d)
		}
		return m
	}
	ack := func(m *discovery.DiscoveryResponse, names ...string) {
		t.Helper()
		send(&discovery.DiscoveryRequest{TypeUrl: m.GetTypeUrl(), VersionInfo: m.GetVersionInfo(), ResponseNonce: m.GetNonce(), ResourceNames: names})
	}
	send(&discovery.DiscoveryRequest{Node: &corev3.Node{Id: nodeID}, TypeUrl: string(resource.Cluster)})
	m := recv(resource.Cluster, clusterA, clusterB)
	send(&discovery.DiscoveryRequest{TypeUrl: string(resource.Endpoint), ResourceNames: []string{"a", "b"}})
	e := recv(resource.Endpoint, endA, endB)
	ack(m)
	ack(e, "a", "b")
	// One changed assignment is sent alone.
	endA2 := xdstest.Endpoints("a", 7)
	r.publish(clusterA, clusterB, endA2, endB)
	ack(recv(resource.Endpoint, endA2), "a", "b")
	// A changed cluster causes the whole vector to be sent, including the cluster that is
	// about to be removed.
	r.publish(clusterA2, endA2)
	ack(recv(resource.Cluster, clusterA2, clusterB))
	ack(recv(resource.Endpoint, endA2), "a", "b")
	m = recv(resource.Cluster, clusterA2)
	ack(m)
	if p := r.settle(t, r.rev); len(p.Acknowledged) != 1 {
		t.Fatalf("progress %+v", p)
	}
}

func TestStormOfPublishAndClose(t *testing.T) {
	r := setup(t, nil)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 15 {
				c, err := xdstest.Dial(context.Background(), r.conn, xdstest.Options{Node: nodeID, Relay: i%2 == 0, Hold: w == 0})
				if err != nil {
					t.Error(err)
					return
				}
				c.Close()
			}
		})
	}
	for i := range 200 {
		r.publish(clusterA, xdstest.Endpoints("a", i), listener, routesA)
	}
	wg.Wait()
	c := r.dial(t, xdstest.Options{})
	c.Request(resource.Endpoint).Equals(t, xdstest.Endpoints("a", 199))
}

// counted counts log records by their message.
type counted struct {
	slog.Handler
	mu    sync.Mutex
	lines map[string]int
}

func (c *counted) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines[r.Message]++
	return nil
}

func (c *counted) Enabled(context.Context, slog.Level) bool { return true }
func (c *counted) WithAttrs([]slog.Attr) slog.Handler       { return c }

// TestRefusalsForEver: a proxy that refuses a resource and requests it again in one message
// gets it again, but not for ever, and few of its refusals are logged.
func TestRefusalsForEver(t *testing.T) {
	log := &counted{lines: map[string]int{}}
	r := setup(t, func(c *server.Config) { c.Limits, c.Log = server.Limits{Burst: 200, Rate: 1}, slog.New(log) })
	r.publish(clusterA)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(r.connect(t)).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m := &discovery.DeltaDiscoveryRequest{Node: &corev3.Node{Id: nodeID}, TypeUrl: string(resource.Cluster), ResourceNamesSubscribe: []string{"*"}}
	for i := range 1000 {
		if err = stream.Send(m); err != nil {
			_, err = stream.Recv()
			break
		}
		var got *discovery.DeltaDiscoveryResponse
		if got, err = stream.Recv(); err != nil {
			break
		}
		m = &discovery.DeltaDiscoveryRequest{
			TypeUrl: string(resource.Cluster), ResponseNonce: got.GetNonce(), ResourceNamesSubscribe: []string{clusterA.Name},
			ErrorDetail: &rpcstatus.Status{Message: fmt.Sprintf("%s: bad %d", clusterA.Name, i)},
		}
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("it ends with %v", err)
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if n := log.lines["configuration_refused"]; n == 0 || n > 20 {
		t.Errorf("%d refusals are logged", n)
	}
}

// TestNamesToggledForEver: a proxy that asks for other names with each answer gets them each
// time, but not for ever. Answers that ask for nothing new cost nothing.
func TestNamesToggledForEver(t *testing.T) {
	for what, tc := range map[string]struct {
		url   resource.TypeURL
		lists [2][]string
		want  codes.Code
	}{
		"assignments":      {resource.Endpoint, [2][]string{{"a"}, {"b"}}, codes.ResourceExhausted},
		"clusters":         {resource.Cluster, [2][]string{{clusterA.Name}, {clusterB.Name}}, codes.ResourceExhausted},
		"all, and one":     {resource.Cluster, [2][]string{{"*"}, {clusterA.Name}}, codes.ResourceExhausted},
		"the same":         {resource.Endpoint, [2][]string{{"a", "b"}, {"b", "a", "b"}}, codes.OK},
		"all, in two ways": {resource.Cluster, [2][]string{nil, {"*"}}, codes.OK},
	} {
		r := setup(t, func(c *server.Config) { c.Limits = server.Limits{Burst: 20, Rate: 1} })
		if err := r.toggle(t, tc.url, tc.lists); status.Code(err) != tc.want {
			t.Errorf("%s: it ends with %v, want %v", what, err, tc.want)
		}
	}
}

// TestManyNamesCost: a client that repeatedly subscribes to many names is cut off after fewer
// requests than one that subscribes to a few. A request costs as much as the server has to
// look at. Without that cost, such a client occupied a core for as long as it wanted.
func TestManyNamesCost(t *testing.T) {
	const burst = 200
	requests := func(names int) int {
		r := setup(t, func(c *server.Config) { c.Limits = server.Limits{Burst: burst, Rate: 1} })
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		g, err := discovery.NewAggregatedDiscoveryServiceClient(r.connect(t)).DeltaAggregatedResources(ctx)
		if err != nil {
			t.Fatal(err)
		}
		m := &discovery.DeltaDiscoveryRequest{Node: &corev3.Node{Id: nodeID}, TypeUrl: string(resource.Endpoint)}
		for i := range names {
			m.ResourceNamesSubscribe = append(m.ResourceNamesSubscribe, fmt.Sprint("name-", i))
		}
		ended := make(chan error, 1)
		go func() {
			_, err := g.Recv()
			for err == nil {
				_, err = g.Recv()
			}
			ended <- err
		}()
		sent := 0
		for g.Send(m) == nil {
			sent++
		}
		if err := <-ended; status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("%d names: it ends with %v", names, err)
		}
		return sent
	}
	// Some further requests are on their way when the stream ends.
	if few, many := requests(1), requests(50_000); few < burst || many > burst/4 {
		t.Errorf("%d requests for 1 name, %d for 50,000, with a burst of %d", few, many, burst)
	}
}

// toggle answers many responses, with two lists of names in turn. It publishes a change before
// each, so that each answer is followed by another response.
func (r *rig) toggle(t *testing.T, url resource.TypeURL, lists [2][]string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	g, err := discovery.NewAggregatedDiscoveryServiceClient(r.connect(t)).StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m := &discovery.DiscoveryRequest{Node: &corev3.Node{Id: nodeID}}
	for i := range 200 {
		r.publish(xdstest.Cluster(clusterA.Name, time.Duration(i+1)*time.Second), clusterB, xdstest.Endpoints("a", i), endB)
		m.TypeUrl, m.ResourceNames = string(url), lists[i%2]
		ended := g.Send(m) != nil
		got, err := g.Recv()
		for ended && err == nil { // responses that were on their way come first
			_, err = g.Recv()
		}
		if err != nil {
			return err
		}
		m = &discovery.DiscoveryRequest{ResponseNonce: got.GetNonce(), VersionInfo: got.GetVersionInfo()}
	}
	return nil
}

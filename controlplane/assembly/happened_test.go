package assembly

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/resource"
	xds "github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// gated holds back each node of a control plane until the test lets it connect.
type gated struct {
	xdsNodes
	entered, open chan struct{}
}

func (g gated) Connect(ctx context.Context, id string, bare bool) (func(), error) {
	select {
	case g.entered <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-g.open:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return g.xdsNodes.Connect(ctx, id, bare)
}

// running is a control plane whose ADS server the test can reach. The test delivers its
// events.
type running struct {
	*ControlPlane
	t    *testing.T
	conn *grpc.ClientConn
}

func startRunning(t *testing.T, change func(*running, *xds.Config)) *running {
	t.Helper()
	local := config.MeshPorts{Listen: "127.0.0.1"}
	cp, err := OpenControlPlane(t.Context(), &config.Config{
		StateDir: t.TempDir(), Store: config.Store{Type: "memory"}, DataPlane: config.DataPlane{Listen: "127.0.0.1"},
		Diagnostics: config.Diagnostics{Listen: "127.0.0.1"}, Mesh: local, Admin: config.AdminPorts{Listen: "127.0.0.1"},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := &running{ControlPlane: cp, t: t}
	t.Cleanup(func() { cp.close(context.Background()) })
	cfg := xds.Config{Snapshots: cp.snapshots, Nodes: xdsNodes{cp.loop}, Auth: adsAuthenticator{cp}, Secrets: cp.loop, Log: cp.Log}
	change(r, &cfg)
	if cp.xds, err = xds.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	looped := make(chan error, 1)
	go func() { looped <- cp.loop.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-looped })
	r.serve()
	return r
}

func (r *running) serve() {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	g := grpc.NewServer(xds.Options()...)
	r.xds.Register(g)
	served := make(chan error, 1)
	go func() { served <- g.Serve(lis) }()
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.xds.Close(ctx); err != nil {
			r.t.Error(err)
		}
		g.Stop()
		<-served
	})
	if r.conn, err = grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = r.conn.Close() })
}

// put stores a Dataplane that serves a service.
func (r *running) put(name, service string) {
	r.t.Helper()
	d := &mesh.Dataplane{Networking: &mesh.Networking{
		Address: "127.0.0.1", Inbound: []mesh.Inbound{{Port: 8080, Tags: mesh.Tags{mesh.TagService: service, mesh.TagProtocol: "http"}}},
	}}
	if _, _, err := r.gate.As(model.System("test")).PutDocument(r.t.Context(), mesh.Dataplanes, mesh.Default, name, d); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) remove(name string) {
	r.t.Helper()
	if _, err := r.gate.As(model.System("test")).DeleteDocument(r.t.Context(), mesh.Dataplanes, mesh.Default, name); err != nil {
		r.t.Fatal(err)
	}
}

// event delivers an event about a Dataplane and returns when it was handled.
func (r *running) event(op store.Op, name string) {
	r.happened(r.t.Context(), store.Event{Op: op, Key: model.Key{Kind: mesh.Dataplanes.Name, Scope: mesh.Default, Name: name}})
}

// TestEventDuringAnAdmission: a change between the authentication of a proxy and its first
// configuration applies to its stream.
func TestEventDuringAnAdmission(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(*running)
		code    codes.Code
	}{
		"its tags are no longer those of its token": {func(r *running) { r.put("a", "payments"); r.event(store.Updated, "a") }, codes.PermissionDenied},
		"its dataplane is removed":                  {func(r *running) { r.remove("a"); r.event(store.Deleted, "a") }, codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			g := gated{entered: make(chan struct{}), open: make(chan struct{})}
			r := startRunning(t, func(r *running, c *xds.Config) {
				g.xdsNodes = xdsNodes{r.loop}
				c.Nodes = g
			})
			r.put("a", "web")
			token, err := r.mesh.tokens.Issue(t.Context(), identity.DataplaneTokenRequest{Mesh: mesh.Default, Name: "a", Tags: map[string][]string{mesh.TagService: {"web"}}})
			if err != nil {
				t.Fatal(err)
			}
			client, err := xdstest.Dial(t.Context(), r.conn, xdstest.Options{Node: "default.a", Token: token})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			select {
			case <-g.entered:
			case <-time.After(time.Minute):
				t.Fatal("the proxy is not authenticated")
			}
			// The loop only publishes the new set, which does not end the stream.
			tc.happens(r)
			if tc.code == codes.NotFound {
				r.put("a", "other") // a Dataplane of somebody else, whose event has not arrived yet
			}
			close(g.open)
			client.WaitFor(t, "the end of the stream", func(v xdstest.View) bool { return v.Err() != nil })
			client.See(func(v xdstest.View) {
				if status.Code(v.Err()) != tc.code {
					t.Errorf("the stream ended with %v", v.Err())
				}
			})
			if n := len(client.Messages()); n != 0 {
				t.Errorf("%d messages were sent to it", n)
			}
		})
	}
}

// TestDeletedControlPlane: the tokens of the gateways of a control plane end with it: their streams end,
// and they get no new token.
func TestDeletedControlPlane(t *testing.T) {
	const plane = "10000000-0000-4000-8000-000000000000"
	r := startRunning(t, func(*running, *xds.Config) {})
	write := func(fn func(store.Tx) error) {
		t.Helper()
		if _, err := r.gate.As(model.System("test")).Write(t.Context(), model.Config, fn); err != nil {
			t.Fatal(err)
		}
	}
	write(func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: cloud.ControlPlanes, Name: plane, Spec: &cloud.ControlPlane{Name: "team", ClusterType: cloud.TypeHybrid, AuthType: "pinned_client_certs"}})
		if err == nil {
			_, err = tx.Create(&model.Resource{Kind: gateway.Instances, Scope: plane, Name: "gw", Spec: &gateway.Instance{Listen: "127.0.0.1", HTTPPort: 8000, HTTPSPort: 8443, ControlPlane: "127.0.0.1:5678"}})
		}
		return err
	})
	token, err := r.tokens.Gateway(plane, "gw", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.tokens.Renew(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	client, err := xdstest.Dial(t.Context(), r.conn, xdstest.Options{Node: identity.GatewayNode(plane, "gw"), Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.WaitFor(t, "what it serves", func(v xdstest.View) bool { return len(v.Messages()) > 0 })
	write(func(tx store.Tx) error { return tx.Delete(cloud.ControlPlanes, "", plane, 0) })
	r.happened(t.Context(), store.Event{Op: store.Deleted, Key: model.Key{Kind: cloud.ControlPlanes.Name, Name: plane}})
	client.WaitFor(t, "the end of the stream", func(v xdstest.View) bool { return v.Err() != nil })
	want := `the control plane "` + plane + `", which was deleted`
	client.See(func(v xdstest.View) {
		if status.Code(v.Err()) != codes.Unauthenticated {
			t.Errorf("the stream ended with %v", v.Err())
		}
	})
	if _, err := r.tokens.Renew(t.Context(), token); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), want) {
		t.Errorf("renewed: %v", err)
	}
}

// TestLateDeletion: if a deletion is handled after the Dataplane was created again, nothing
// of the connected proxy is forgotten.
func TestLateDeletion(t *testing.T) {
	r := startRunning(t, func(*running, *xds.Config) {})
	secret := map[string]string{mesh.SecretIdentity(mesh.Default): "g"}
	connected := func() {
		r.snapshots.Publish(map[string]*resource.Set{"default.a": resource.NewSet(nil, secret)}, r.store.Revision())
	}
	r.put("a", "web")
	r.mesh.insights.Connected(xds.Event{Node: "default.a", Stream: 1})
	connected()
	now := time.Now()
	r.mesh.renewals.Note(mesh.Default, "a", now, now.Add(time.Hour))
	r.mesh.insights.Issued(mesh.Default, "a", "ca", now.Add(time.Hour), now)

	r.event(store.Deleted, "a")
	if !r.mesh.renewals.Noted(mesh.Default, "a") {
		t.Error("its certificate will not be renewed")
	}
	r.mesh.insights.Disconnected(xds.Event{Node: "default.a", Stream: 1})
	if held, err := r.mesh.insights.IssuedBackends(t.Context(), mesh.Default); err != nil || held["a"] != "ca" {
		t.Errorf("it holds %v, %v", held, err)
	}

	// It is deleted, and created again before the deletion is fully handled.
	r.mesh.insights.Connected(xds.Event{Node: "default.a", Stream: 2})
	r.remove("a")
	r.event(store.Deleted, "a")
	if r.mesh.renewals.Noted(mesh.Default, "a") {
		t.Error("the certificate of a deleted dataplane will be renewed")
	}
	r.put("a", "web")
	connected()
	r.event(store.Created, "a")
	if !r.mesh.renewals.Noted(mesh.Default, "a") {
		t.Error("after its creation its certificate will not be renewed")
	}
	r.mesh.insights.Disconnected(xds.Event{Node: "default.a", Stream: 2})
	if held, err := r.mesh.insights.IssuedBackends(t.Context(), mesh.Default); err != nil || held["a"] != "ca" {
		t.Errorf("after its creation it holds %v, %v", held, err)
	}
}

// TestRenewalOfAnOlderGeneration: a certificate that is made while the tags of its proxy
// change is pushed for the generation that the set wanted before.
func TestRenewalOfAnOlderGeneration(t *testing.T) {
	var pushed []string
	generation := "1"
	r := &renewer{
		nodes: func() []string { return []string{"n"} }, secrets: func(string) []string { return []string{"certificate"} },
		generation: func(string, string) string { return generation },
		secret: func(_ context.Context, _, name, _ string) (*resource.Resource, error) {
			generation = "2"
			return resource.New(resource.Secret, name, nil), nil
		},
		push: func(_, generation string, _ *resource.Resource) { pushed = append(pushed, generation) },
		log:  slog.New(slog.DiscardHandler),
	}
	r.round(t.Context())
	if len(pushed) != 1 || pushed[0] != "1" {
		t.Errorf("pushed for %v", pushed)
	}
}

package assembly

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/store"
	xds "github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// states returns the keys of a kind by name, each with its state and use.
func (r *running) states(kind string) string {
	r.t.Helper()
	keys, err := keyring{r.ControlPlane}.List(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, k := range keys {
		if k.Kind == kind {
			out = append(out, k.Name+" "+k.State+" "+k.InUse)
		}
	}
	return strings.Join(out, ", ")
}

// enrol stores the parameters of a gateway, as its enrolment does, and returns its token.
func (r *running) enrol(name string) (token string) {
	r.t.Helper()
	_, err := r.gate.As(model.System("test")).Write(r.t.Context(), model.Credential, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Instances, Scope: model.DefaultControlPlane, Name: name, Spec: &gateway.Instance{
			Listen: "127.0.0.1", HTTPPort: 80, HTTPSPort: 443, ControlPlane: "127.0.0.1:5678",
		}})
		return err
	})
	if err == nil {
		token, err = r.tokens.Gateway(model.DefaultControlPlane, name, time.Hour)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return token
}

// TestCompromised: the withdrawal of keys ends streams and both links of their tokens before
// it answers. The tokens are refused everywhere with the reason, and the answer names the
// nodes that need new ones. The keys are withdrawn before connections end, so that none can
// come back. The caller may leave meanwhile.
func TestCompromised(t *testing.T) {
	r := startRunning(t, func(r *running, c *xds.Config) { c.Observer = r.mesh.insights })
	r.put("a", "web")
	r.mesh.insights.Expect("default.a")
	proxy, err := r.mesh.tokens.Issue(t.Context(), identity.DataplaneTokenRequest{Mesh: mesh.Default, Name: "a", ValidFor: "1h"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ kind, mesh, node, token, want string }{
		{meshapi.KeysNodeTokens, "", "cp/default/gw", r.enrol("gw"), "Key 2 signs node tokens from now on. Withdrawn: key 1. "},
		{meshapi.KeysDataplaneTokens, mesh.Default, "default.a", proxy, "Key 2 signs the dataplane tokens of mesh default from now on. Withdrawn: key 1. "},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			client := r.dial(tc.node, tc.token)
			client.WaitFor(t, "its configuration", func(v xdstest.View) bool { return len(v.Messages()) > 0 })
			links := r.hold(tc.node, tc.token)
			asked, cancel := context.WithCancel(model.WithActor(t.Context(), model.User("ann")))
			defer cancel()
			gate := r.gate
			defer func() { r.gate = gate }()
			r.gate = admit.New(r.store, leaves{r.revoker, cancel}, AllKinds(), time.Now) // the caller is gone
			r.ownToken = func() error {                                                  // runs between the withdrawal and the end of the connections
				if _, err := r.authenticate(t.Context(), tc.node, tc.token); !fault.Is(err, fault.Denied) {
					t.Errorf("what is ended would be let in again: %v", err)
				}
				return nil
			}
			said, err := keyring{r.ControlPlane}.Rotate(asked, tc.kind, meshapi.KeyRotation{Mesh: tc.mesh, Compromised: true})
			if err != nil || !strings.Contains(said, tc.want) || !strings.Contains(said, "1 node ("+tc.node+") came with such tokens") {
				t.Fatalf("%s, %v", said, err)
			}
			client.WaitFor(t, "the end of the stream", func(v xdstest.View) bool { return status.Code(v.Err()) == codes.Unauthenticated })
			links.ended(t, tc.node, tc.token)
			if asked.Err() == nil {
				t.Error("the caller was not gone")
			}
			if got := r.states(tc.kind); got != "1 compromised 1 node, 2 active 0 nodes" {
				t.Errorf("keys %s", got)
			}
			again := r.dial(tc.node, tc.token)
			again.WaitFor(t, "the refusal", func(v xdstest.View) bool {
				return status.Code(v.Err()) == codes.Unauthenticated && strings.Contains(v.Err().Error(), "signed by key 1, which was withdrawn")
			})
			r.listed(tc.node, func(n nodes.Node) bool {
				return n.State == insight.Refused && strings.Contains(n.Reason, "because it is compromised: the node needs a new token")
			})
		})
	}
}

// leaves is a revoker whose caller leaves as soon as the withdrawal is committed.
type leaves struct {
	admit.Revoker
	gone func()
}

// Begin implements admit.Revoker.
func (l leaves) Begin() (publish func(context.Context, store.Commit) error, abandon func()) {
	inner, abandon := l.Revoker.Begin()
	return func(ctx context.Context, c store.Commit) error {
		l.gone()
		return inner(ctx, c)
	}, abandon
}

// dial opens an ADS stream of a node, as its agent does.
func (r *running) dial(node, token string) *xdstest.Client {
	r.t.Helper()
	ctx := metadata.AppendToOutgoingContext(r.t.Context(), xds.NodeKey, node)
	client, err := xdstest.Dial(ctx, r.conn, xdstest.Options{Node: node, Token: token})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(client.Close)
	return client
}

// listed waits until a node is listed in the expected state.
func (r *running) listed(node string, as func(nodes.Node) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	for {
		mark := r.nodes.List(nodes.Query{}).Mark
		d, err := r.nodes.Get(node)
		if err == nil && as(d) {
			return
		}
		if ctx.Err() != nil {
			r.t.Fatalf("%s is listed as %+v, %v", node, d, err)
		}
		r.nodes.Await(ctx, mark)
	}
}

// TestCompromisedKinds: only keys of tokens can be withdrawn. Other requests are refused and
// change nothing.
func TestCompromisedKinds(t *testing.T) {
	r := startRunning(t, func(*running, *xds.Config) {})
	ctx := model.WithActor(t.Context(), model.User("ann"))
	for _, kind := range []string{meshapi.KeysEncryption, meshapi.KeysAuthority} {
		if _, err := (keyring{r.ControlPlane}).Rotate(ctx, kind, meshapi.KeyRotation{Compromised: true}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := (keyring{r.ControlPlane}).Rotate(ctx, meshapi.KeysDataplaneTokens, meshapi.KeyRotation{Compromised: true, Mesh: "none"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a mesh that does not exist: %v", err)
	}
}

// TestOwnGatewayAfterWithdrawal: the gateway that runs beside its control plane gets a valid
// token at once.
func TestOwnGatewayAfterWithdrawal(t *testing.T) {
	r := startRunning(t, func(*running, *xds.Config) {})
	r.cfg.Gateway.Name = "gw"
	if _, err := newOwnAgent(r.cfg, r.ControlPlane, nil, "envoy", Filter{}, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := (keyring{r.ControlPlane}).Rotate(model.WithActor(t.Context(), model.User("ann")), meshapi.KeysNodeTokens, meshapi.KeyRotation{Compromised: true}); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(r.cfg.StateDir, "gw.token"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.tokens.Check(t.Context(), string(token)); err != nil {
		t.Error(err)
	}
}

// TestRemovedNodesAreDropped: when a node is removed, in whichever way, its tokens and roots
// are forgotten, so that the key of its token can be deleted.
func TestRemovedNodesAreDropped(t *testing.T) {
	r := startRunning(t, func(*running, *xds.Config) {})
	ctx := model.WithActor(t.Context(), model.User("ann"))
	r.enrol("gw")
	for _, name := range []string{"deleted", "removed"} {
		r.put(name, "web")
	}
	for _, node := range []string{"cp/default/gw", "default.deleted", "default.removed"} {
		r.mesh.insights.Expect(node)
		r.uses.Linked(node, "1", time.Now().Add(time.Hour))
		r.roots.set(node, []byte("roots"))
	}
	if got := r.states(meshapi.KeysNodeTokens) + ", " + r.states(meshapi.KeysDataplaneTokens); got != "1 active 1 node, 1 active 2 nodes" {
		t.Fatalf("keys %s", got)
	}
	for _, node := range []string{"cp/default/gw", "default.removed"} {
		if err := r.nodes.Remove(ctx, node, nil); err != nil {
			t.Fatalf("%s: %v", node, err)
		}
	}
	r.remove("deleted")
	r.event(store.Deleted, "deleted")
	if got := r.states(meshapi.KeysNodeTokens) + ", " + r.states(meshapi.KeysDataplaneTokens); got != "1 active 0 nodes, 1 active 0 nodes" {
		t.Errorf("keys %s", got)
	}
	if by := r.toldRoots(); len(by) > 0 {
		t.Errorf("roots are remembered of %d nodes", len(by))
	}
}

func (r *running) toldRoots() map[string][sha256.Size]byte {
	r.roots.mu.Lock()
	defer r.roots.mu.Unlock()
	return r.roots.by
}

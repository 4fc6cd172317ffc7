package freshness

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/oauth"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/controlplane/scopes/scopestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn/redistest"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// tenants are control planes a and b, and a group of both, in one process on one Redis.
type tenants struct {
	*testing.T
	site   *site
	gate   *admit.Gate
	server *httptest.Server
	redis  *redistest.Server
	// apps are the applications of the control planes, people their consumers.
	apps, people map[string]string
}

// ofNode takes a node at its word.
type ofNode struct{}

// Authenticate implements [revoke.Authenticator].
func (ofNode) Authenticate(_ context.Context, node, _ string) (revoke.Node, error) {
	return revoke.Node{ID: node, ControlPlane: strings.Split(node, "/")[1]}, nil
}

func startTenants(t *testing.T) *tenants {
	t.Helper()
	w := &tenants{T: t, site: newSite(t), redis: redistest.Start(t), apps: map[string]string{}, people: map[string]string{}}
	db, groups := memstore.New(), scopestest.Resolver{}
	t.Cleanup(func() { _ = db.Close() })
	at := contract.RedisSettings{URL: "redis://" + w.redis.Address()}
	client, err := revoke.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	source := &oauth.Source{Store: db, Resolver: groups, Now: time.Now}
	r, err := revoke.New(t.Context(), revoke.Options{
		Store: db, Subjects: oauth.Subjects(), Source: source, Made: source.Made, Resolver: groups,
		Auth: ofNode{}, Redis: client, NodeRedis: func(bool) *contract.RedisSettings { return &at },
		Allowed: func(revoke.Node, string) bool { return true }, ChecksTokens: func(revoke.Node) bool { return true },
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.gate = admit.New(db, r, append(gateway.Kinds(), scopestest.Groups), time.Now).As(model.System("test"))
	w.gate.Resolve(groups)
	w.server = httptest.NewUnstartedServer(r)
	w.server.TLS = &tls.Config{Certificates: []tls.Certificate{w.site.cert}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}}
	w.server.StartTLS()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
		w.server.Close()
	})
	for _, plane := range []string{"a", "b"} {
		w.people[plane] = w.create(plane, gateway.Consumers, &gateway.Consumer{Username: "user-of-" + plane})
		w.apps[plane] = w.create(plane, gateway.Applications, &gateway.Application{Consumer: w.people[plane], ClientID: "c-" + plane, ClientSecret: "s"})
	}
	w.must(w.members("a", "b"))
	return w
}

func (w *tenants) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *tenants) write(fn func(store.Tx) error) error {
	_, err := w.gate.Write(context.Background(), model.Config, fn)
	return err
}

func (w *tenants) create(plane string, k *model.Kind, spec any) (name string) {
	w.Helper()
	name = uuid.NewString()
	w.must(w.write(func(tx store.Tx) error {
		res, err := tx.Create(&model.Resource{Kind: k, Scope: plane, Name: name, Spec: spec})
		if err == nil && k.Class == model.Credential {
			tx.Announce(res.Key(), store.Created) // its value may be remembered as unknown
		}
		return err
	}))
	return name
}

// members has the group consist of control planes.
func (w *tenants) members(planes ...string) error {
	return w.write(func(tx store.Tx) error { return scopestest.Set(tx, "group", planes...) })
}

// credential is a token or an API key, and who holds it.
type credential struct {
	kind  *model.Kind
	value string
}

func (c credential) hash() contract.Hash {
	if c.kind == gateway.Keys {
		return contract.HashKey([]byte(c.value))
	}
	return contract.HashToken([]byte(c.value))
}

// mint makes a credential of a control plane.
func (w *tenants) mint(plane string, c credential) (name string) {
	w.Helper()
	if c.kind == gateway.Keys {
		return w.create(plane, c.kind, &gateway.Key{Consumer: w.people[plane], Key: c.value})
	}
	return w.create(plane, c.kind, &gateway.Token{Credential: w.apps[plane], AccessToken: c.value, TokenType: "bearer", ExpiresIn: 7200})
}

func (w *tenants) revoke(plane string, c credential, name string) {
	w.Helper()
	w.must(w.write(func(tx store.Tx) error { return tx.Delete(c.kind, plane, name, 0) }))
}

// node is a gateway of a control plane or of the group: the real cache.
type node struct {
	w     *tenants
	name  string
	dir   string
	cache *tokencache.Cache
	links ends
	cut   atomic.Bool
	held  atomic.Pointer[heldReads]
}

// heldReads holds what comes from Redis until it is let go.
type heldReads struct {
	once     sync.Once
	met, let chan struct{}
}

// meets waits until the look-up of which the answer is to come has something from Redis.
func (h *heldReads) meets(t *testing.T, answer <-chan contract.Answer) {
	t.Helper()
	select {
	case <-h.met:
	case a := <-answer:
		t.Fatalf("it did not ask Redis: answer %d", a)
	}
}

// slowConn is a connection to Redis whose answers can be held.
type slowConn struct {
	net.Conn
	of *node
}

// Read implements [net.Conn].
func (c slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if h := c.of.held.Load(); h != nil && n > 0 {
		h.once.Do(func() { close(h.met) })
		<-h.let
	}
	return n, err
}

func (w *tenants) node(plane string) *node {
	w.Helper()
	n := &node{w: w, name: fmt.Sprint("cp/", plane, "/1"), dir: filepath.Join(w.site.dir, plane)}
	w.must(os.MkdirAll(n.dir, 0o700))
	n.open()
	redistest.Until(w.T, "the gateway believes Redis", func() bool { s := n.cache.Stats(); return s.Leased && s.Epoch != 0 })
	// The control plane writes it after it has let the gateway in. Nothing in Redis counts before.
	redistest.Until(w.T, "Redis says what the gateway belongs to", func() bool { return w.redis.CLI(w.T, "EXISTS", contract.RedisMembersKey(plane)) == "1" })
	return n
}

func (n *node) open() {
	n.w.Helper()
	var err error
	n.cache, err = tokencache.Open(tokencache.Options{
		Settings: &contract.Settings{
			Cache:        contract.CacheSettings{MaxBytes: 1 << 20},
			ControlPlane: &contract.ControlPlaneSettings{Address: "localhost:5678", CAFile: n.w.site.ca, TokenFile: n.w.site.token, Node: n.name},
		},
		Dir: n.dir, Logger: slog.New(slog.DiscardHandler), DialLink: n.dialLink, RedisTimeout: 5 * time.Second,
		DialRedis: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return slowConn{conn, n}, nil
		},
	})
	n.w.must(err)
	n.w.Cleanup(n.cache.Close)
}

// dialLink connects to the control plane, unless that is out of reach.
func (n *node) dialLink(ctx context.Context, _, _ string) (net.Conn, error) {
	if n.cut.Load() {
		return nil, errRefused
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.w.server.Listener.Addr().String())
	if err == nil {
		n.links.add(conn)
	}
	return conn, err
}

// alone starts the gateway anew, out of reach of the control plane, with what it has on disk.
func (n *node) alone() {
	n.w.Helper()
	n.cut.Store(true)
	n.links.cut()
	redistest.Until(n.w.T, "the link has ended", func() bool { return !n.cache.Stats().Linked })
	n.cache.Close()
	n.open()
}

// answered is what a look-up of a credential has come to.
type answered struct {
	answer contract.Answer
	packed []byte
}

// Lookup implements [engine.Tokens].
func (a answered) Lookup(_ contract.Hash, dst []byte) (int, contract.Answer) {
	return copy(dst, a.packed), a.answer
}

// looksUp asks the memory of the gateway, and then whoever else knows.
func (n *node) looksUp(c credential) answered {
	hash, packed := c.hash(), make([]byte, contract.MaxPacked)
	if size, a := n.cache.Lookup(hash, packed); a != contract.Miss {
		return answered{a, packed[:size]}
	}
	done := make(chan answered, 1)
	n.cache.Resolve(hash, "plugin", func(a contract.Answer, packed []byte) { done <- answered{a, packed} })
	return <-done
}

// asks says what a request with a credential comes to, and as whom.
func (n *node) asks(c credential) (answer contract.Answer, user string) {
	a := n.looksUp(c)
	return a.answer, userOf(a.packed)
}

func userOf(packed []byte) string {
	spans, ok := contract.Unpacked(packed)
	if !ok {
		return ""
	}
	at := spans[contract.FieldConsumerUsername]
	return string(packed[at.Off : at.Off+at.Len])
}

// comesToAccept waits until a credential is accepted by what stands in Redis: the control plane
// writes that after it has answered.
func (n *node) comesToAccept(what string, c credential, user string) {
	n.w.Helper()
	redistest.Until(n.w.T, what, func() bool { a, _ := n.asks(c); return a == contract.Found })
	n.accepts(what, c, user)
}

// accepts is asked twice: what the first has left in memory must say the same.
func (n *node) accepts(what string, c credential, user string) {
	n.w.Helper()
	for range 2 {
		if a, as := n.asks(c); a != contract.Found || as != user {
			n.w.Errorf("%s at %s: answer %d as %q, want it to pass as %q", what, n.name, a, as, user)
		}
	}
}

func (n *node) refuses(what string, c credential) {
	n.w.Helper()
	for range 2 {
		if a, as := n.asks(c); a == contract.Found {
			n.w.Errorf("%s at %s: passes as %q", what, n.name, as)
		}
	}
}

var bothKinds = map[string]*model.Kind{"token": gateway.Tokens, "key": gateway.Keys}

// TestTenantsRefuseEachOthersCredentials: what one control plane has issued passes at its own
// gateways and those of its group, and nowhere else, with the control plane and without it.
func TestTenantsRefuseEachOthersCredentials(t *testing.T) {
	w := startTenants(t)
	own, other, group := w.node("a"), w.node("b"), w.node("group")
	for _, reach := range []string{"linked", "alone"} {
		for name, kind := range bothKinds {
			c := credential{kind, "of-a-" + name + reach}
			w.mint("a", c)
			if reach == "alone" {
				for _, n := range []*node{own, other, group} {
					n.alone()
				}
			}
			own.accepts(reach+" "+name, c, "user-of-a")
			group.accepts(reach+" "+name, c, "user-of-a")
			other.refuses(reach+" "+name, c)
		}
	}
}

// TestTenantsWithOneCredential: a value that two control planes hold is each one's own, and
// nothing that one does with it is felt by the other.
func TestTenantsWithOneCredential(t *testing.T) {
	for name, kind := range bothKinds {
		t.Run(name, func(t *testing.T) {
			w := startTenants(t)
			w.must(w.members("a"))
			a, b := w.node("a"), w.node("b")
			c := credential{kind, "chosen"}
			held := w.mint("a", c)
			b.refuses("before it has it", c)
			w.mint("b", c)
			a.accepts("held by both", c, "user-of-a")
			b.accepts("held by both", c, "user-of-b")
			w.revoke("a", c, held)
			a.refuses("revoked", c)
			b.accepts("revoked by the other", c, "user-of-b")
			asked := b.cache.Stats().Introspections
			b.alone()
			b.accepts("revoked by the other, without the control plane", c, "user-of-b")
			if asked > 3 { // once before it had it, and what came of it
				t.Errorf("the control plane was asked %d times", asked)
			}
			a.alone()
			a.refuses("revoked, without the control plane", c)
		})
	}
}

// TestTenantLeavesItsGroup: once that is answered no gateway of the group accepts what the one
// that has left has issued: from memory, from Redis, in a look-up that was under way, or out
// of reach of the control plane.
func TestTenantLeavesItsGroup(t *testing.T) {
	w := startTenants(t)
	group := w.node("group")
	away := &node{w: w, name: "cp/group/2", dir: filepath.Join(w.site.dir, "away")}
	w.must(os.MkdirAll(away.dir, 0o700))
	away.open()
	redistest.Until(t, "the gateway believes Redis", func() bool { s := away.cache.Stats(); return s.Leased && s.Epoch != 0 })
	stays, leaves, raced := credential{gateway.Tokens, "of-b"}, credential{gateway.Keys, "of-a"}, credential{gateway.Tokens, "raced"}
	w.mint("b", stays)
	w.mint("a", leaves)
	w.mint("a", raced)
	for _, n := range []*node{group, away} {
		n.accepts("of a member", stays, "user-of-b")
		n.accepts("of a member", leaves, "user-of-a")
	}
	away.alone()
	away.accepts("without the control plane", leaves, "user-of-a")

	h := &heldReads{met: make(chan struct{}), let: make(chan struct{})}
	group.held.Store(h)
	answer := make(chan contract.Answer, 1)
	go func() {
		a, _ := group.asks(raced)
		answer <- a
	}()
	h.meets(t, answer)
	w.must(w.members("b"))
	group.held.Store(nil)
	close(h.let)
	if a := <-answer; a == contract.Found {
		t.Error("a look-up that was under way is answered by who the members were")
	}
	for _, n := range []*node{group, away} {
		n.refuses("of one that left", leaves)
		n.refuses("of one that left, raced", raced)
	}
	group.accepts("of one that stays", stays, "user-of-b")
	away.comesToAccept("of one that stays", stays, "user-of-b")
	away.refuses("of one that left, once the others stand in Redis", leaves)
	away.refuses("of one that left, raced, once the others stand in Redis", raced)
	w.must(w.members("a", "b"))
	group.accepts("of one that came back", leaves, "user-of-a")
	away.comesToAccept("of one that came back, without the control plane", leaves, "user-of-a")
}

// TestTenantCannotBeSaidToHaveLeft: while Redis cannot be written, a gateway that is out of
// reach accepts what it was told to. So the change is answered as one that is not in force.
func TestTenantCannotBeSaidToHaveLeft(t *testing.T) {
	w := startTenants(t)
	group := w.node("group")
	c := credential{gateway.Tokens, "of-a"}
	w.mint("a", c)
	group.accepts("of a member", c, "user-of-a")
	group.alone()
	w.redis.Freeze(t)
	err := w.members("b")
	w.redis.Thaw(t)
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Code != fault.Unavailable || !strings.Contains(f.Detail, "What the control plane consists of was changed, but") {
		t.Fatalf("answered %v", err)
	}
	redistest.Until(t, "Redis is in order again", func() bool { return w.gate.Settle(t.Context()) == nil })
	group.refuses("of one that left", c)
}

package revoke

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/steady/steadytest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const scope = model.DefaultControlPlane

// inTime is how long a test in real time waits for what must happen, also on a busy machine.
const inTime = time.Minute

// subjects returns the kinds of the gateway as package main wires them.
func subjects() map[*model.Kind]Subject {
	return map[*model.Kind]Subject{
		gateway.Tokens: {
			Is:    contract.SubjectToken,
			Token: func(s any) contract.Hash { return contract.HashToken([]byte(s.(*gateway.Token).AccessToken)) },
			Expires: func(r *model.Resource) int64 {
				return contract.ExpiresAt(r.Created, r.Spec.(*gateway.Token).ExpiresIn)
			},
			Under: func(s any) string { return s.(*gateway.Token).Credential },
		},
		gateway.Applications: {Is: contract.SubjectCredential},
		gateway.Consumers:    {Is: contract.SubjectConsumer},
	}
}

// source reads tokens from the store. hook runs after a read.
type source struct {
	store store.Store
	// owner, if set, is the consumer of every token.
	owner string
	mu    sync.Mutex
	hook  func()
	// trouble, if set, is called before every read.
	trouble func(context.Context) error
	// makes counts the records that were made of rows.
	makes int
}

func (s *source) be(trouble func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = trouble
}

func (s *source) Record(ctx context.Context, scope string, hash contract.Hash) (rec *contract.Record, answer contract.Answer, rev uint64, err error) {
	answer = contract.Unknown
	s.mu.Lock()
	trouble := s.trouble
	s.mu.Unlock()
	if trouble != nil {
		if err := trouble(ctx); err != nil {
			return nil, answer, 0, err
		}
	}
	err = s.store.View(ctx, func(r store.Reader) error {
		rev = r.Revision()
		list, err := r.List(gateway.Tokens, store.Query{Scope: scope})
		for _, t := range list {
			if spec := t.Spec.(*gateway.Token); contract.HashToken([]byte(spec.AccessToken)) == hash {
				answer, rec = contract.Found, s.recordOf(t)
			}
		}
		return err
	})
	s.mu.Lock()
	hook := s.hook
	s.hook = nil
	s.mu.Unlock()
	if hook != nil {
		hook()
	}
	return rec, answer, rev, err
}

// made is [Options].Made. Like Record, it does not ask whether the owners exist.
func (s *source) made(_ store.Reader, token *model.Resource) (*contract.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trouble != nil {
		if err := s.trouble(context.Background()); err != nil {
			return nil, err
		}
	}
	s.makes++
	return s.recordOf(token), nil
}

func (s *source) recordOf(token *model.Resource) *contract.Record {
	rec := &contract.Record{Version: 1, Plane: token.Scope, Credential: contract.Credential{ID: token.Spec.(*gateway.Token).Credential}}
	if s.owner != "" {
		rec.Consumer = &contract.Consumer{ID: s.owner}
	}
	return rec
}

type auth struct{}

// Authenticate believes the node id.
func (auth) Authenticate(_ context.Context, node, token string) (Node, error) {
	if token != "good" {
		return Node{}, errors.New("no")
	}
	return Node{ID: cmp.Or(node, "node"), ControlPlane: scope}, nil
}

type world struct {
	t      *testing.T
	store  store.Store
	source *source
	r      *Revoker
	url    string
	app    string
	owner  string

	// fresh says that no process used the store before.
	fresh  bool
	now    func() time.Time // nil is the system's clock
	checks func(Node) bool
	// wall, if set, is a wall clock that the test sets. clock is the clock of the process
	// with that wall clock. A naive process trusts it blindly. The store is then in a file,
	// which each process opens anew.
	wall  *steadytest.Hand
	clock Clock
	file  string

	// remote replaces Redis. A virtual world has no sockets.
	remote  remote
	virtual bool
	// pause is the interval between checks of Redis, 0 for the default.
	pause atomic.Int64
	tweak func(*Options)

	tracker   Tracker
	nodeRedis string
	// through may put something between real filters and the server, in a virtual world. It
	// returns the connection to use.
	through func(server net.Conn) net.Conn
	// patience is how long a real filter waits for Redis, 0 for the filter's default.
	patience time.Duration
}

// newWorld opens a world with a real Redis, in real time.
func newWorld(t *testing.T, client redis.UniversalClient) *world {
	t.Helper()
	w := &world{t: t}
	w.init(client)
	return w
}

// init opens the world.
func (w *world) init(client redis.UniversalClient) {
	t := w.t
	w.store = w.openStore()
	t.Cleanup(func() { w.store.Close() }) // the store of the last process
	w.source = &source{store: w.store}
	w.open(client)
	w.begun(time.Now().Add(-contract.Lease))
	w.seed()
}

// begun sets when the running control plane started.
func (w *world) begun(at time.Time) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.started = at
}

// seed makes a consumer with an application.
func (w *world) seed() {
	w.owner, w.app = uuid.NewString(), uuid.NewString()
	w.must(func(tx store.Tx) error {
		if _, err := tx.Create(&model.Resource{Kind: gateway.Consumers, Scope: scope, Name: w.owner, Spec: &gateway.Consumer{Username: "u"}}); err != nil {
			return err
		}
		_, err := tx.Create(&model.Resource{Kind: gateway.Applications, Scope: scope, Name: w.app, Spec: &gateway.Application{Consumer: w.owner, ClientID: "c", ClientSecret: "s"}})
		return err
	})
}

// open starts a control plane on the store.
func (w *world) open(client redis.UniversalClient) {
	w.t.Helper()
	w.nextClock()
	o := Options{
		Store: w.store, Subjects: subjects(), Source: w.source, Made: w.source.made, Auth: auth{}, Redis: client, remote: w.remote,
		pace: func() time.Duration { return cmp.Or(time.Duration(w.pause.Load()), watchEvery) },
		NodeRedis: func(local bool) *contract.RedisSettings {
			if !local {
				return nil
			}
			return &contract.RedisSettings{URL: cmp.Or(w.nodeRedis, "redis://reader@here")}
		},
		Now: w.now, Clock: w.clock, Tracker: w.tracker, ChecksTokens: w.checks,
		Allowed: func(_ Node, plugin string) bool { return plugin == "plugin" }, Log: slog.New(slog.DiscardHandler),
	}
	if w.tweak != nil {
		w.tweak(&o)
	}
	r, err := New(context.Background(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.r = r
	if w.virtual {
		w.t.Cleanup(func() { w.close(r) })
		return
	}
	server := httptest.NewServer(r)
	w.url = server.Listener.Addr().String()
	var once sync.Once
	w.t.Cleanup(func() { once.Do(func() { w.close(r); server.Close() }) })
}

func (w *world) close(r *Revoker) {
	if r.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		w.t.Errorf("close: %v", err)
	}
}

// write runs a transaction on the write path.
func (w *world) write(fn func(store.Tx) error) error {
	publish, abandon := w.r.Begin()
	c, err := w.commit(fn)
	if err != nil {
		abandon()
		w.t.Error(err)
		return err
	}
	return publish(context.Background(), c)
}

// Publish calls Begin and publish at once, for a commit that no other caller can have seen.
func (r *Revoker) Publish(ctx context.Context, c store.Commit) error {
	publish, _ := r.Begin()
	return publish(ctx, c)
}

// commit does the part of a write before its publication.
func (w *world) commit(fn func(store.Tx) error) (store.Commit, error) {
	return w.store.Update(context.Background(), model.Config, func(tx store.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return w.r.Stage(tx)
	})
}

func (w *world) must(fn func(store.Tx) error) {
	w.t.Helper()
	if err := w.write(fn); err != nil {
		w.t.Fatal(err)
	}
}

// mint creates a token and returns its name.
func (w *world) mint(value string, announce bool) string {
	w.t.Helper()
	name := uuid.NewString()
	w.must(func(tx store.Tx) error {
		r, err := tx.Create(&model.Resource{Kind: gateway.Tokens, Scope: scope, Name: name, Spec: &gateway.Token{
			Credential: w.app, AccessToken: value, TokenType: "bearer", ExpiresIn: 7200}})
		if err == nil && announce {
			tx.Announce(r.Key(), store.Created)
		}
		return err
	})
	return name
}

func (w *world) delete(name string) error {
	return w.write(func(tx store.Tx) error { return tx.Delete(gateway.Tokens, scope, name, 0) })
}

// fake is a filter whose frames the test sends and reads.
type fake struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	// first is the invalidation that it got when it started anew.
	first *contract.Invalidate
}

func (w *world) connect(instance string) (*fake, contract.Welcome) {
	w.t.Helper()
	return w.connectAccepting(contract.Hello{Instance: instance}, "")
}

// connectAccepting sends further headers with the upgrade. A filter that starts anew
// applies and acknowledges what it is sent. In a virtual world that is taken in when it
// returns.
func (w *world) connectAccepting(hello contract.Hello, headers string) (*fake, contract.Welcome) {
	w.t.Helper()
	f := w.upgraded(headers)
	welcome := f.hello(hello)
	if w.virtual {
		synctest.Wait()
	}
	return f, welcome
}

// upgraded opens a link on which nothing was said yet.
func (w *world) upgraded(headers string) *fake {
	w.t.Helper()
	conn := w.reach()
	if !w.virtual { // where nobody can wait in vain without being noticed
		if err := conn.SetDeadline(time.Now().Add(inTime)); err != nil {
			w.t.Fatal(err)
		}
	}
	f := &fake{t: w.t, conn: conn, in: bufio.NewReader(conn)}
	if _, err := fmt.Fprintf(conn, "GET /link HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %s\r\nAuthorization: Bearer good\r\n%s\r\n", contract.LinkProtocol, headers); err != nil {
		w.t.Fatal(err)
	}
	res, err := http.ReadResponse(f.in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		w.t.Fatalf("upgrade: %v %v", res, err)
	}
	return f
}

// hello sends a hello and reads the welcome.
func (f *fake) hello(hello contract.Hello) contract.Welcome {
	f.t.Helper()
	hello.Version = contract.LinkVersion
	body, _ := contract.EncodeJSON(hello)
	f.send(contract.FrameHello, body)
	var wel contract.Welcome
	if err := contract.DecodeJSON(f.expect(contract.FrameWelcome), &wel); err != nil {
		f.t.Fatal(err)
	}
	if wel.From == 0 {
		f.first = f.invalidated()
		f.ack(f.first.To)
	}
	return wel
}

func (f *fake) send(t contract.FrameType, body []byte) {
	f.t.Helper()
	if err := contract.WriteFrame(f.conn, t, body); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) expect(want contract.FrameType) []byte {
	f.t.Helper()
	got, body, err := contract.ReadFrame(f.in)
	if err != nil || got != want {
		f.t.Fatalf("frame of type %d (%v), want %d", got, err, want)
	}
	return body
}

func (f *fake) lease() {
	f.t.Helper()
	f.send(contract.FrameRenew, contract.EncodeNumber(1))
	f.expect(contract.FrameGranted)
}

func (f *fake) invalidated() *contract.Invalidate {
	f.t.Helper()
	m, err := contract.DecodeInvalidate(f.expect(contract.FrameInvalidate))
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

// ack confirms everything up to a position, in memory and on disk.
func (f *fake) ack(at contract.Position) {
	f.send(contract.FrameAck, contract.Ack{Applied: at, Durable: at}.Encode())
}

func (f *fake) trusted() contract.TrustChange {
	f.t.Helper()
	var m contract.TrustChange
	if err := contract.DecodeJSON(f.expect(contract.FrameTrust), &m); err != nil {
		f.t.Fatal(err)
	}
	return m
}

// leaseEnd returns when the last present lease ends.
func (w *world) leaseEnd() (end time.Time) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	for l := range w.r.links {
		end = later(end, l.lease)
	}
	return end
}

// async runs a write. Its error arrives on the returned channel.
func async(fn func() error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- fn() }()
	return c
}

package tokencache

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

const testPlugin = "plugin-1"

// patience is how long a test waits for what must happen, also on a busy machine.
const patience = time.Minute

// What the control plane of tests is and vouches for.
const (
	testLog   = contract.LogID("log-1")
	testEpoch = contract.Epoch(1<<63 + 3)
	testRunID = "run-1"
	testPlane = "plane-1"
)

// testScopes is whose credentials a gateway of tests accepts, testMembers what Redis says.
var (
	testScopes  = &contract.Scopes{Of: testPlane, Members: []string{testPlane}}
	testMembers = contract.Members{Epoch: testEpoch, Members: testScopes.Members}.Marshal()
)

var testTrust = contract.Trust{Epoch: testEpoch, Servers: []string{testRunID}}

// testKey signs the records of tests.
var testKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

func testKeys(keys ...ed25519.PrivateKey) []contract.RecordKey {
	var out []contract.RecordKey
	for _, k := range keys {
		out = append(out, contract.NewRecordKey(k.Public().(ed25519.PublicKey)))
	}
	return out
}

// fakeControl is the control plane's side of links, and fakeStore the Redis;
// both run inside a synctest bubble, so that all time is virtual.
type fakeControl struct {
	t     *testing.T
	cert  tls.Certificate
	token atomic.Pointer[string]
	links chan *fakeLink
	down  atomic.Bool
	// auto grants every Renew of links accepted later; introspect answers.
	auto       bool
	introspect func(*contract.Introspect) *contract.Result
	asked      atomic.Int64
	hold       atomic.Pointer[chan struct{}] // reading waits for it after a Renew
}

// fakeLink is one accepted link; frames it does not answer itself are in
// frames.
type fakeLink struct {
	t      *testing.T
	conn   net.Conn
	raw    net.Conn // beneath TLS
	r      *bufio.Reader
	hello  contract.Hello
	frames chan fakeFrame
	mu     sync.Mutex
	mute   atomic.Bool // half-open: reads on, says nothing
	// renewed is when the last granted Renew came, in nanoseconds of Unix time.
	renewed atomic.Int64
}

type fakeFrame struct {
	kind contract.FrameType
	body []byte
}

func (c *fakeControl) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if c.down.Load() {
		return nil, errors.New("connection refused")
	}
	client, server := net.Pipe()
	go c.serve(server)
	return client, nil
}

func (c *fakeControl) serve(raw net.Conn) {
	conn := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{c.cert}, MinVersion: tls.VersionTLS13})
	r := bufio.NewReader(conn)
	req, err := http.ReadRequest(r)
	if err != nil {
		_ = raw.Close()
		return
	}
	if req.URL.Path != contract.LinkPath || req.Header.Get("Authorization") != "Bearer "+*c.token.Load() {
		_, _ = conn.Write([]byte("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"))
		_ = raw.Close()
		return
	}
	_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + contract.LinkProtocol + "\r\n\r\n"))
	l := &fakeLink{t: c.t, conn: conn, raw: raw, r: r, frames: make(chan fakeFrame, 4096)}
	kind, body, err := contract.ReadFrame(r)
	if err != nil || kind != contract.FrameHello || contract.DecodeJSON(body, &l.hello) != nil {
		_ = raw.Close()
		return
	}
	c.links <- l
	defer close(l.frames)
	for {
		kind, body, err := contract.ReadFrame(r)
		if err != nil {
			_ = raw.Close()
			return
		}
		if hold := c.hold.Load(); hold != nil && kind == contract.FrameRenew {
			<-*hold
		}
		switch {
		case l.mute.Load():
		case kind == contract.FrameRenew && c.auto:
			l.renewed.Store(time.Now().UnixNano())
			l.send(contract.FrameGranted, body)
		case kind == contract.FrameIntrospect && c.introspect != nil:
			q, err := contract.DecodeIntrospect(body)
			if err != nil {
				c.t.Errorf("introspect: %v", err)
				return
			}
			c.asked.Add(1)
			if res := c.introspect(q); res != nil {
				res.ID = q.ID
				l.result(res)
			}
		default:
			l.frames <- fakeFrame{kind, body}
		}
	}
}

func (l *fakeLink) send(kind contract.FrameType, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = contract.WriteFrame(l.conn, kind, body) // a broken link shows in what the filter does
}

func (l *fakeLink) json(kind contract.FrameType, v any) {
	body, err := contract.EncodeJSON(v)
	if err != nil {
		l.t.Error(err)
	}
	l.send(kind, body)
}

func (l *fakeLink) result(res *contract.Result) {
	body, err := res.Encode()
	if err != nil {
		l.t.Error(err)
	}
	l.send(contract.FrameResult, body)
}

// invalidate takes one position.
func (l *fakeLink) invalidate(at contract.Position, items ...contract.Invalidation) {
	l.send(contract.FrameInvalidate, (&contract.Invalidate{From: at - 1, To: at, Items: items}).Encode())
}

func (l *fakeLink) trust(at contract.Position, t contract.Trust) {
	l.json(contract.FrameTrust, contract.TrustChange{At: at, Trust: t})
}

// welcome resumes where the filter is, or begins the log.
func (l *fakeLink) welcome() {
	w := contract.Welcome{Log: testLog, Trust: testTrust, Scopes: testScopes}
	if l.hello.Log == testLog {
		w.From = l.hello.Applied
	}
	l.json(contract.FrameWelcome, w)
}

// expect returns the body of the next frame, which must be of that kind.
func (l *fakeLink) expect(kind contract.FrameType) []byte {
	l.t.Helper()
	select {
	case f, ok := <-l.frames:
		if !ok || f.kind != kind {
			l.t.Fatalf("frame of type %d (open: %v), want %d", f.kind, ok, kind)
		}
		return f.body
	case <-time.After(patience):
		l.t.Fatalf("no frame of type %d arrived", kind)
	}
	return nil
}

// ack is the next acknowledgement.
func (l *fakeLink) ack() contract.Ack {
	l.t.Helper()
	a, err := contract.DecodeAck(l.expect(contract.FrameAck))
	if err != nil {
		l.t.Fatal(err)
	}
	return a
}

// expectAck waits until a position is applied and on disk; what is said before then
// must be less than that.
func (l *fakeLink) expectAck(at contract.Position) {
	l.t.Helper()
	want := contract.Ack{Applied: at, Durable: at}
	for a := l.ack(); a != want; a = l.ack() {
		if a.Applied > at || a.Durable >= at {
			l.t.Fatalf("acknowledged %+v, want %+v", a, want)
		}
	}
}

// expectEnd waits for the end of the link, before which nothing may come.
func (l *fakeLink) expectEnd() {
	l.t.Helper()
	select {
	case f, ok := <-l.frames:
		if ok {
			l.t.Fatalf("frame of type %d instead of the end", f.kind)
		}
	case <-time.After(patience):
		l.t.Fatal("the link does not end")
	}
}

// accept waits for the next link.
func (c *fakeControl) accept() *fakeLink {
	c.t.Helper()
	select {
	case l := <-c.links:
		return l
	case <-time.After(patience):
		c.t.Fatal("no link arrived")
		return nil
	}
}

// fakeStore is a Redis whose reads a test can fail, hold or watch.
type fakeStore struct {
	mu      sync.Mutex
	values  map[string][]byte
	fail    error
	block   bool
	slow    time.Duration // what each key takes
	reads   int
	closed  int
	closing func()           // called before it closes
	reading func(key string) // called before each read of a key
	node    string           // the server of a cluster where everything is; empty if there is no cluster
	alone   []bool           // what the last readers of a record and of floors said
	// hung says which keys are on another server of a cluster, one that does not answer.
	hung func(key string) bool
}

func (s *fakeStore) set(key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = value
}

func (s *fakeStore) get(ctx context.Context, key string) ([]byte, error) {
	v := visitOf(ctx)
	if v == nil {
		return s.read(ctx, key)
	}
	node, read := s.node, s.read
	if s.hung != nil && s.hung(key) {
		node, read = "hung:1", func(ctx context.Context, _ string) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	if err := v.enter(node); err != nil {
		return nil, err
	}
	value, err := read(ctx, key)
	v.leave(node, err)
	return value, err
}

func (s *fakeStore) byNodes() bool { return s.node != "" }

func (s *fakeStore) read(ctx context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	hook, fail, block, slow := s.reading, s.fail, s.block, s.slow
	s.reads++
	s.mu.Unlock()
	if hook != nil {
		hook(key)
	}
	if block {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[key], fail
}

func (s *fakeStore) record(ctx context.Context, of *contract.Scopes, h contract.Hash, alone bool) (at stored, err error) {
	s.mu.Lock()
	s.alone = []bool{alone}
	at.members = s.values[contract.RedisMembersKey(of.Of)]
	s.mu.Unlock()
	for _, plane := range of.Members {
		entry, err := s.get(ctx, contract.RedisRecordKey(plane, h))
		if err != nil {
			return stored{}, err
		}
		at.entries = append(at.entries, entry)
	}
	at.clock, err = s.get(ctx, contract.RedisClockKey)
	return at, err
}

func (s *fakeStore) floors(ctx context.Context, r *contract.Record, alone bool) (a, b []byte, err error) {
	s.mu.Lock()
	s.alone = append(s.alone, alone)
	s.mu.Unlock()
	if a, err = s.get(ctx, contract.RedisCredentialKey(r.Plane, r.Credential.ID)); err != nil || r.Consumer == nil {
		return a, nil, err
	}
	b, err = s.get(ctx, contract.RedisConsumerKey(r.Plane, r.Consumer.ID))
	return a, b, err
}

func (s *fakeStore) close() error {
	if s.closing != nil {
		s.closing()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

// storable is a record as the control plane writes it to Redis.
func storable(r *contract.Record) *contract.Record {
	if r.Epoch == 0 {
		r.Epoch = testEpoch
	}
	if r.Until == 0 {
		r.Until = time.Now().Add(contract.RecordLife).UnixMilli()
	}
	return r
}

// putRecord writes a record as the control plane does, with the floors of its
// owners.
func (s *fakeStore) putRecord(t *testing.T, token int, r *contract.Record) {
	t.Helper()
	storable(r)
	s.putFloors(r)
	b, err := r.Sign(hashOf(token), testKey)
	if err != nil {
		t.Fatal(err)
	}
	s.set(contract.RedisRecordKey(r.Plane, hashOf(token)), b)
}

// putFloors writes that nothing of the owners was revoked, unless something was.
func (s *fakeStore) putFloors(r *contract.Record) {
	for _, key := range []string{contract.RedisCredentialKey(r.Plane, r.Credential.ID), contract.RedisConsumerKey(r.Plane, r.Consumer.ID)} {
		s.mu.Lock()
		f, _ := contract.ParseFloor(s.values[key]) // 0 if there is none
		f.Epoch = storable(r).Epoch
		s.values[key] = f.Marshal()
		s.mu.Unlock()
	}
}

func (s *fakeStore) putClock(at contract.Position) {
	s.set(contract.RedisClockKey, contract.Clock{Epoch: testEpoch, Log: testLog, Position: at}.Marshal())
	s.set(contract.RedisMembersKey(testPlane), testMembers)
}

// bubbleClock is the virtual time of a bubble, whose wall clock can step.
type bubbleClock struct {
	base time.Time
	step atomic.Int64
}

func (c *bubbleClock) Now() Instant {
	now := time.Now()
	return Instant{Wall: now.UnixNano() + c.step.Load(), Mono: now.Sub(c.base)}
}

// world is a cache with its fake authorities.
type world struct {
	t       *testing.T
	control *fakeControl
	store   *fakeStore
	cache   *Cache
	clock   *bubbleClock
	token   string     // path of the token file
	opened  [][]string // servers of the clients of Redis that were made

	settings *contract.Settings
	log      slog.Handler
}

// worldConfig chooses the authorities: static has no control plane, noRedis no L2. logged,
// if set, is called where a line is logged.
type worldConfig struct {
	static, noRedis bool
	// cluster has everything on one server of a cluster.
	cluster bool
	cache   contract.CacheSettings
	logged  func(message string)
}

// listener calls a function with each message.
type listener struct {
	slog.Handler
	heard func(string)
}

// Enabled implements [slog.Handler].
func (listener) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (h listener) Handle(_ context.Context, r slog.Record) error {
	h.heard(r.Message)
	return nil
}

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, wc worldConfig, test func(*world)) {
	t.Helper()
	dir := t.TempDir()
	cert, ca := testCertificate(t, dir)
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, token: filepath.Join(dir, "token"), store: &fakeStore{values: map[string][]byte{}}}
		if wc.cluster {
			w.store.node = "a:1"
		}
		w.control = &fakeControl{t: t, cert: cert, links: make(chan *fakeLink, 64)}
		w.writeToken("secret")
		s := &contract.Settings{Cache: wc.cache}
		s.Cache.MaxBytes = 4 << 20
		if !wc.noRedis {
			s.Redis = &contract.RedisSettings{URL: "redis://redis"}
		}
		if !wc.static {
			s.ControlPlane = &contract.ControlPlaneSettings{Address: "localhost:5678", CAFile: ca, TokenFile: w.token, Node: "cp/default/1"}
		}
		if s.Scopes = testScopes.Members; !wc.static {
			s.Scopes, s.RecordKeys = nil, testKeys(testKey)
		}
		w.settings = s
		w.clock = &bubbleClock{base: time.Now()}
		if w.log = slog.DiscardHandler; wc.logged != nil {
			w.log = listener{slog.DiscardHandler, wc.logged}
		}
		w.open()
		defer func() { w.cache.Close() }()
		test(w)
	})
}

// open starts the cache.
func (w *world) open() {
	w.t.Helper()
	var err error
	w.cache, err = Open(Options{
		Settings: w.settings, Logger: slog.New(w.log), DialLink: w.control.dial, Clock: w.clock,
		openStore: func(_ *contract.RedisSettings, servers []string) (store, error) {
			w.opened = append(w.opened, servers)
			return w.store, nil
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) writeToken(token string) {
	w.control.token.Store(&token)
	if err := os.WriteFile(w.token, []byte(token+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// live accepts a link that grants every lease, and returns once L1 may answer.
func (w *world) live() *fakeLink {
	w.t.Helper()
	w.control.auto = true
	l := w.control.accept()
	l.welcome()
	synctest.Wait()
	if s := w.cache.Stats(); !s.Leased || !s.Linked {
		w.t.Fatalf("not live: %+v", s)
	}
	return l
}

// advance lets virtual time pass and everything that is due happen.
func (w *world) advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *world) lookup(token int) contract.Answer {
	_, a := w.cache.Lookup(hashOf(token), make([]byte, contract.MaxPacked))
	return a
}

// resolve waits for the answer of a look-up in the deeper levels.
func (w *world) resolve(token int) contract.Answer {
	w.t.Helper()
	c := make(chan contract.Answer, 2)
	w.cache.Resolve(hashOf(token), testPlugin, func(a contract.Answer, packed []byte) {
		if a == contract.Found && len(packed) == 0 || a != contract.Found && a != contract.Expired && len(packed) > 0 {
			w.t.Errorf("answer %d with %d bytes", a, len(packed))
		}
		c <- a
	})
	select {
	case a := <-c:
		return a
	case <-time.After(waitTimeout + time.Millisecond):
		w.t.Fatal("no answer within the documented time")
		return contract.Miss
	}
}

func (w *world) want(what string, got, want contract.Answer) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: answer %d, want %d", what, got, want)
	}
}

func found(token int, revision uint64) *contract.Result {
	return &contract.Result{Answer: contract.Found, Revision: revision, Record: testRecord(token, revision)}
}

// testCertificate writes the CA file and returns a certificate for localhost
// that is valid at the virtual time of a bubble as well.
func testCertificate(t *testing.T, dir string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, URIs: []*url.URL{contract.DataPlaneURI()},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, path
}

package revoke

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
	"github.com/meshgate/meshgate/xds/alarm"
)

// mood is how a Redis behaves.
type mood int

const (
	fine    mood = iota
	gone         // no connection
	full         // every write is refused
	frozen       // nothing is answered; what was written may be carried out later
	waiting      // writes wait for the gate
	unheard      // writes are carried out, and their answers wait for the gate
)

// scripted is a Redis that the test controls.
type scripted struct {
	mu sync.Mutex
	id string
	// pinned is the only server that accepts writes, as with redisconn.Pin.
	pinned   string
	role     string
	eviction string
	mood     mood
	gate     chan struct{}
	values   map[string][]byte
	expiries map[string]int64
	// formers holds servers that were replaced and still run, by their ids.
	formers map[string]map[string][]byte
	// order holds every key that was written. late holds what was written while frozen.
	order []string
	late  []cell
	// most is how many keys were written at once.
	most int
	// pause is how long each write takes.
	pause time.Duration
}

func newScripted(id string) *scripted {
	return &scripted{id: id, role: "master", gate: make(chan struct{}), values: map[string][]byte{}, expiries: map[string]int64{}, formers: map[string]map[string][]byte{}}
}

// inMood returns a Redis that behaves in this way from the beginning.
func inMood(m mood) *scripted {
	s := newScripted("run-1")
	s.be(m)
	return s
}

func (s *scripted) be(m mood) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mood = m
}

func (s *scripted) state() mood {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mood
}

var (
	errGone    = errors.New("connection refused")
	errAnother = errors.New("another server answers")
)

func (s *scripted) reach(ctx context.Context) error {
	switch s.state() {
	case gone:
		return errors.Join(errRefused, errGone)
	case frozen:
		<-ctx.Done()
		return ctx.Err()
	case fine, full, waiting, unheard:
	}
	return ctx.Err()
}

func (s *scripted) pin(ctx context.Context) ([]redisconn.Server, error) {
	servers, err := s.identify(ctx)
	if err == nil {
		s.mu.Lock()
		s.pinned = servers[0].RunID
		s.mu.Unlock()
	}
	return servers, err
}

// another reports whether a server other than the pinned one answers.
func (s *scripted) another() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pinned != "" && s.pinned != s.id
}

func (s *scripted) identify(ctx context.Context) ([]redisconn.Server, error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return []redisconn.Server{{RunID: s.id, Role: s.role, Eviction: s.eviction}}, nil
}

func (s *scripted) clock(ctx context.Context) ([]byte, error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	return s.get(contract.RedisClockKey), nil
}

func (s *scripted) get(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.values[key])
}

func (s *scripted) write(ctx context.Context, cells []cell) error {
	switch s.state() {
	case frozen:
		s.mu.Lock()
		s.late = append(s.late, cells...)
		s.mu.Unlock()
	case full:
		return errors.Join(errRefused, errors.New("OOM"))
	case waiting:
		<-s.shut()
	case unheard:
		s.carryOut(cells)
		<-s.shut()
		return nil
	case fine, gone:
	}
	if err := s.rest(ctx); err != nil {
		return err
	}
	if err := s.reach(ctx); err != nil {
		return err
	}
	if s.another() {
		return errAnother
	}
	s.carryOut(cells)
	return nil
}

// rest lets the time of a write pass.
func (s *scripted) rest(ctx context.Context) error {
	s.mu.Lock()
	pause := s.pause
	s.mu.Unlock()
	return alarm.Rest(ctx, pause)
}

func (s *scripted) shut() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate
}

func (s *scripted) carryOut(cells []cell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = max(s.most, len(cells))
	for _, c := range cells {
		s.values[c.key], s.expiries[c.key] = c.value, c.expires
		s.order = append(s.order, c.key)
	}
}

func (s *scripted) setClock(ctx context.Context, clock []byte) ([]byte, error) {
	before := s.get(contract.RedisClockKey)
	return before, s.write(ctx, []cell{{isTombstone, contract.RedisClockKey, clock, 0, nil}})
}

// put writes as another client would.
func (s *scripted) put(key string, value []byte) {
	s.carryOut([]cell{{isTombstone, key, value, 0, nil}})
}

// open releases writes that wait, and makes the next ones wait again.
func (s *scripted) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.gate)
	s.gate = make(chan struct{})
}

// thaw carries out what was written while frozen.
func (s *scripted) thaw() {
	s.mu.Lock()
	late := s.late
	s.late = nil
	s.mu.Unlock()
	s.carryOut(late)
}

// snapshot and restore do what an operator does with a dump.
func (s *scripted) snapshot() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.values)
}

func (s *scripted) restore(values map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = maps.Clone(values)
}

func (s *scripted) clockNow(t *testing.T) contract.Clock {
	t.Helper()
	c, err := contract.ParseClock(s.get(contract.RedisClockKey))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *scripted) entry(t *testing.T, token string) (e contract.Entry) {
	t.Helper()
	data := s.get(contract.RedisRecordKey(scope, contract.HashToken([]byte(token))))
	if data == nil {
		return e
	}
	e, err := contract.ParseEntry(data)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// floor returns the floor of an owner's key, or -1 if there is none.
func (s *scripted) floor(t *testing.T, key string) int {
	t.Helper()
	data := s.get(key)
	if data == nil {
		return -1
	}
	f, err := contract.ParseFloor(data)
	if err != nil {
		t.Fatal(err)
	}
	return int(f.Revision)
}

// virtually runs a test in a world whose time passes only while all goroutines wait.
func virtually(t *testing.T, tweak func(*Options), fn func(t *testing.T, w *world, redis *scripted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		redis := newScripted("run-1")
		w := &world{t: t, virtual: true, remote: redis, tweak: tweak}
		w.init(nil)
		synctest.Wait()
		fn(t, w, redis)
	})
}

// pipe links a filter of a node without a socket. What the filter acknowledges is taken in
// when it returns: the next link of the filter may depend on it.
func (w *world) pipe(node string, hello contract.Hello) (*fake, contract.Welcome) {
	w.t.Helper()
	f := w.dial(node)
	welcome := f.hello(hello)
	synctest.Wait()
	return f, welcome
}

// dial does what pipe does, without the hello.
func (w *world) dial(node string) *fake {
	n, err := w.r.o.Auth.Authenticate(w.t.Context(), node, "good")
	if err != nil {
		w.t.Fatal(err)
	}
	n.token = "good"
	near, far := net.Pipe()
	l := w.r.newLink(n, far, bufio.NewReader(far))
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer far.Close()
		_ = l.serve()
	}()
	w.t.Cleanup(func() { _ = near.Close(); <-served })
	return &fake{t: w.t, conn: near, in: bufio.NewReader(near)}
}

// cut ends the link of a filter.
func (f *fake) cut() {
	_ = f.conn.Close()
	synctest.Wait()
}

// stillWaits fails if an answer has arrived already.
func stillWaits(t *testing.T, what string, c <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-c:
		t.Fatalf("%s is over: %v", what, err)
	default:
	}
}

// took fails if an answer takes longer than a caller's patience.
func took(t *testing.T, c <-chan error) (time.Duration, error) {
	t.Helper()
	begun := time.Now()
	err := <-c
	d := time.Since(begun)
	if d > patience {
		t.Errorf("answered after %v", d)
	}
	return d, err
}

func says(t *testing.T, err error, words ...string) {
	t.Helper()
	unavailable(t, err)
	for _, word := range words {
		if err != nil && !bytes.Contains([]byte(err.Error()), []byte(word)) {
			t.Errorf("%v does not say %q", err, word)
		}
	}
}

// instance returns the instance name of a filter of a process.
func instance(process, rest string) string { return fmt.Sprint(process, ".", rest) }

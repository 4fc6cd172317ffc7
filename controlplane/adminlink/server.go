package adminlink

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/xds/alarm"
	"github.com/meshgate/meshgate/xds/places"
	"github.com/meshgate/meshgate/xds/rejudge"
)

// Authenticator checks the token of a node that opens a link.
type Authenticator interface {
	// Authenticate checks that a token was issued for a node. until is when the token
	// expires, zero if never.
	Authenticate(ctx context.Context, nodeID, token string) (until time.Time, err error)
}

// Options of a server.
type Options struct {
	Auth Authenticator
	// Connected, if set, is called for each link that was accepted, with the token that it
	// came with. It may ask questions at once. ctx ends with the link, and the link waits
	// for Connected to return.
	Connected func(ctx context.Context, node, token string, until time.Time)
	// Report, if set, is called with the report of a node's agent, at each pong. It is
	// called with the zero value if there is no problem, or if there are no more reports
	// because the link has ended. It must not block.
	Report func(node string, r Report)
	// Places limits how many nodes have a link at once, by owner. Owner returns the owner
	// of a token that Auth has accepted. If it is nil, all tokens belong to gateways.
	Places places.Limits
	Owner  func(token string) places.Owner
	// MaxBody bounds an answer in bytes. 0 means [MaxBody], which is also the maximum.
	MaxBody int64
	Log     *slog.Logger
	Now     func() time.Time
}

const (
	writeTimeout = 5 * time.Second
	maxNode      = 512
)

// ErrNotConnected is wrapped by the Unavailable fault for a node without a link.
var ErrNotConnected = errors.New("the proxy has no link to this control plane")

var (
	errReplaced = errors.New("a newer link of the node took its place")
	errClosing  = errors.New("the control plane is stopping")
	errUnasked  = errors.New("the agent sent what it was not asked for")
	errPonged   = errors.New("the agent answered a ping that it was not sent")
	errSlow     = errors.New("the agent did not answer in time")
	errExpired  = errors.New("the node token has expired")
	errRevoked  = errors.New("the node token no longer counts")
)

// Server holds the links of all nodes.
type Server struct {
	o  Options
	mu sync.Mutex
	// links holds the newest link of each node. Two links of one node are normal while a
	// dead connection has not been noticed.
	links    map[string]*link
	places   *places.Places      // of links
	unjudged *rejudge.Set[*link] // links whose recheck failed
	brief    brief               // links that end right after they were opened
	closing  bool
	owned    sync.WaitGroup
}

// NewServer returns a server without links.
func NewServer(o Options) *Server {
	o.MaxBody = cmp.Or(o.MaxBody, MaxBody)
	s := &Server{o: o, links: map[string]*link{}, places: places.New(o.Places)}
	s.unjudged = rejudge.New(s.judge, s.notRechecked)
	return s
}

// link is one connection.
type link struct {
	node, token string // what the link came with; see Recheck
	owner       places.Owner
	conn        net.Conn
	in          *bufio.Reader
	turn        chan struct{} // holds an entry while a question is open; see take
	quit        chan struct{} // closed when the link has ended
	once        sync.Once
	err         error // why it ended; set before quit is closed

	write sync.Mutex // frames are written whole

	mu     sync.Mutex
	next   uint64
	answer *answer // of the open question
	pings  int     // pings without an answer so far
}

// answer collects the chunks of one question.
type answer struct {
	id   uint64
	max  int
	size int
	body []byte
	err  error
	done chan struct{}
	// unwanted says that no caller waits for the answer any more. slow ends the link if the
	// answer does not come in time.
	unwanted bool
	slow     *time.Timer
}

func (l *link) close(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.quit)
		_ = l.conn.Close() // the connection is given up, whatever Close returns
	})
}

// ServeHTTP accepts one link and serves it until it ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	node := r.Header.Get(NodeHeader)
	if !ok || token == "" || node == "" || len(node) > maxNode {
		http.Error(w, "a node id and its token are required", http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodGet || !strings.EqualFold(r.Header.Get("Upgrade"), Protocol) {
		w.Header().Set("Upgrade", Protocol)
		http.Error(w, "this is not an upgrade to the link protocol", http.StatusUpgradeRequired)
		return
	}
	until, err := s.o.Auth.Authenticate(r.Context(), node, token)
	if err != nil {
		http.Error(w, "the token is not valid for this node", http.StatusUnauthorized)
		return
	}
	conn, rw, err := httpkit.Hijack(w)
	if err != nil {
		http.Error(w, "the connection cannot be upgraded", http.StatusHTTPVersionNotSupported)
		return
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(writeTimeout)); err != nil {
		return
	}
	const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + Protocol + "\r\n\r\n"
	if _, err := conn.Write([]byte(switching)); err != nil {
		return
	}
	l := &link{node: node, token: token, conn: conn, in: rw.Reader, turn: make(chan struct{}, 1), quit: make(chan struct{})}
	if s.o.Owner != nil {
		l.owner = s.o.Owner(token)
	}
	begun := time.Now()
	if err := s.serve(r.Context(), l, until); err != nil {
		s.ended(l, time.Since(begun), err)
	}
}

func (s *Server) serve(ctx context.Context, l *link, until time.Time) error {
	if err := s.register(l); err != nil {
		return err
	}
	defer s.owned.Done()
	s.recheck(ctx, l) // its token may have been revoked before it was registered
	if !until.IsZero() {
		expiry := alarm.AfterFunc(s.o.Now, until, func() { l.close(errExpired) })
		defer expiry.Stop()
	}
	var parts sync.WaitGroup
	parts.Go(l.ping)
	linked, cancel := context.WithCancel(ctx)
	if s.o.Connected != nil {
		parts.Go(func() { s.o.Connected(linked, l.node, l.token, until) })
	}
	l.close(l.read(s.told))
	cancel()
	s.unregister(l)
	parts.Wait()
	return l.err
}

func (s *Server) register(l *link) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return errClosing
	}
	old := s.links[l.node]
	if old != nil { // the new link takes over its place
		s.places.Give(old.owner)
	}
	if err := s.places.Take(l.owner); err != nil {
		if old != nil {
			_ = s.places.Take(old.owner) // the place has just become free
		}
		return fmt.Errorf("too many links: %w", err)
	}
	if old != nil {
		old.close(errReplaced)
	}
	s.links[l.node] = l
	s.owned.Add(1)
	return nil
}

func (s *Server) unregister(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unjudged.Remove(l)
	if s.links[l.node] == l {
		delete(s.links, l.node)
		s.places.Give(l.owner)
		s.say(l.node, Report{})
	}
}

// told handles a report of an agent. It ignores a link that was replaced.
func (s *Server) told(l *link, body []byte) {
	r := parseReport(body) // parsed outside the lock, so that nobody waits for it
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.links[l.node] == l {
		s.say(l.node, r)
	}
}

// say passes on the report about a node's proxy. s.mu is held.
func (s *Server) say(node string, r Report) {
	if s.o.Report != nil {
		s.o.Report(node, r)
	}
}

// Linked lists the nodes that have a link.
func (s *Server) Linked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.links))
}

// Close ends every link and waits for them.
func (s *Server) Close() {
	s.mu.Lock()
	s.closing = true
	for _, l := range s.links {
		l.close(errClosing)
	}
	s.mu.Unlock()
	s.unjudged.End()
	s.owned.Wait()
}

// Ask returns the answer of a node's Envoy at an allowed path. It returns a Forbidden fault
// for another path. It returns Unavailable if the node is not connected, is too slow,
// disconnects, or answers with more than MaxBody. Questions to one node wait for each other
// until ctx ends.
func (s *Server) Ask(ctx context.Context, node, path string) ([]byte, error) {
	if !Allowed(path) {
		return nil, fault.New(fault.Forbidden, "the administration interface is not asked for %q", path)
	}
	return s.ask(ctx, node, question{Path: path, Max: s.o.MaxBody})
}

// Trust makes the agent of a node verify the control plane with these roots from now on. It
// returns once the agent has stored them. Errors are those of Ask.
func (s *Server) Trust(ctx context.Context, node string, roots []byte) error {
	_, err := s.ask(ctx, node, question{Path: RootsPath, Max: s.o.MaxBody, Roots: roots})
	return err
}

func (s *Server) ask(ctx context.Context, node string, q question) ([]byte, error) {
	s.mu.Lock()
	l := s.links[node]
	s.mu.Unlock()
	if l == nil {
		return nil, fault.Wrap(fault.Unavailable, ErrNotConnected, "proxy %q is not connected", node)
	}
	select {
	case l.turn <- struct{}{}:
	case <-l.quit:
		return nil, fault.Wrap(fault.Unavailable, l.err, "proxy %q has disconnected", node)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	body, err := l.ask(ctx, q)
	if err != nil && ctx.Err() == nil && fault.CodeOf(err) == fault.Internal {
		err = fault.Wrap(fault.Unavailable, err, "proxy %q did not answer", node)
	}
	return body, err
}

// ask sends a question. The caller has the turn. The turn ends with the answer and not with
// the wait for it: the chunks of an answer that is no longer wanted are still on the way,
// and are dropped as they arrive. An agent that does not answer in time loses its link, and
// reconnects at once.
func (l *link) ask(ctx context.Context, q question) ([]byte, error) {
	body, err := json.Marshal(q)
	if err != nil {
		<-l.turn
		return nil, err
	}
	l.mu.Lock()
	l.next++
	a := &answer{id: l.next, max: int(q.Max), done: make(chan struct{})}
	a.slow = time.AfterFunc(AskTimeout, func() { l.close(errSlow) })
	l.answer = a
	l.mu.Unlock()
	if err := l.send(frame{ask, a.id, body}); err != nil {
		return nil, err
	}
	select {
	case <-a.done:
		return a.body, a.err
	case <-l.quit:
		return nil, l.err
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		a.unwanted, a.body = true, nil
		return nil, ctx.Err()
	}
}

// send writes one frame. An agent that does not read loses its link.
func (l *link) send(f frame) error {
	l.write.Lock()
	defer l.write.Unlock()
	err := l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err == nil {
		err = write(l.conn, f)
	}
	if err != nil {
		l.close(fmt.Errorf("write: %w", err))
	}
	return err
}

func (l *link) ping() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.quit:
			return
		case <-tick.C:
			l.mu.Lock()
			l.pings++ // counted before the answer can arrive
			l.mu.Unlock()
			if l.send(frame{kind: ping, body: reports}) != nil {
				return
			}
		}
	}
}

// ponged counts the answer to a ping. Each ping has one answer. Every pong is reported to
// the watchers, so an agent that could send any number of pongs would keep them busy.
func (l *link) ponged() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pings == 0 {
		return errPonged
	}
	l.pings--
	return nil
}

// read handles what the agent sends until the link ends. told is called with its pongs.
func (l *link) read(told func(*link, []byte)) error {
	for {
		if err := l.conn.SetReadDeadline(time.Now().Add(idle)); err != nil {
			return err
		}
		f, err := read(l.in)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if f.kind == pong {
			if err := l.ponged(); err != nil {
				return err
			}
			told(l, f.body)
			continue
		}
		if err := l.take(f); err != nil {
			return err
		}
	}
}

// take adds a frame to the open answer. The last frame passes the turn on.
func (l *link) take(f frame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.answer
	if a == nil || f.id != a.id {
		return errUnasked
	}
	switch f.kind {
	case data:
		if a.size += len(f.body); a.size > a.max {
			return fmt.Errorf("an answer of more than %d bytes", a.max)
		}
		if !a.unwanted {
			a.body = append(a.body, f.body...)
		}
		return nil
	case end:
	case fail:
		if len(f.body) > maxReason {
			f.body = f.body[:maxReason]
		}
		a.body, a.err = nil, fault.New(fault.Unavailable, "the proxy cannot answer: %s", strings.ToValidUTF8(string(f.body), "?"))
	default:
		return errUnasked
	}
	a.slow.Stop()
	l.answer = nil
	close(a.done)
	<-l.turn
	return nil
}

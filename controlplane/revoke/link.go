package revoke

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/alarm"
	"github.com/meshgate/meshgate/xds/rejudge"
)

// Limits of one link.
const (
	// queueFrames bounds the frames that wait to be written. A filter that lets the queue
	// fill up is disconnected.
	queueFrames = 512
	// maxUnacked bounds the positions that a filter may leave unacknowledged, and the
	// trusts that it has not yet stored on disk.
	maxUnacked = 1 << 14
	// maxInbound bounds the frames of a filter, in bytes. None of them is large.
	maxInbound = 16 << 10
	// maxInstance bounds Hello.Instance.
	maxInstance = 128
	// maxQuestions bounds the introspections that one link runs at a time.
	maxQuestions  = 64
	readTimeout   = contract.Lease
	writeTimeout  = time.Second
	helloTimeout  = 3 * time.Second
	questionLimit = time.Second
	// linkVersions is the reason why a filter with another version is refused. The text
	// does not contain that version: a filter that reported a different version each time
	// would otherwise create a new refusal each time.
	linkVersions = "its filter speaks another version of the link than the control plane"
	// planLimit bounds how long a filter waits for its Welcome because its node is not
	// planned or Redis is not in order. It is welcomed after that all the same, so that it
	// gets revocations.
	planLimit = time.Second
	// A filter that links right after the start of this process waits for its Welcome
	// until planMargin before the leases of a predecessor end. A filter gives up a link
	// whose Welcome takes as long as a lease.
	planMargin = 250 * time.Millisecond
)

type frame struct {
	kind contract.FrameType
	body []byte
}

// unacked is a position that must be acknowledged.
type unacked struct {
	at    contract.Position
	sent  time.Time
	round *round // nil if no caller waits for it
}

// link is one connection of a filter. The Revoker's mu guards the fields below mayAsk and
// refilling.
type link struct {
	r     *Revoker
	node  Node
	conn  net.Conn
	in    *bufio.Reader
	hello contract.Hello
	// accepts says that the filter understands [contract.FrameLevel2]. reasons says that it
	// knows all answers that reject a token. local says that it runs on this host.
	accepts, reasons, local bool
	// scoped says that it understands [contract.FrameScopes], planes that it understands
	// whose owners an invalidation is about.
	scoped, planes bool

	out chan frame
	// ctx ends with the link.
	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once
	asked  chan struct{} // semaphore of introspections
	work   sync.WaitGroup
	// unjudged contains the link while its token could not be checked. Each link has its
	// own set, so that no link waits for the check of another.
	unjudged *rejudge.Set[*link]
	// mayAsk says that the node has asked a question that it may ask. refilling says that
	// the records that it holds are being written to Redis.
	mayAsk, refilling atomic.Bool

	lease   time.Time
	waiting []unacked
	told    []told // trusts that are not acknowledged
	level2  bool   // it was told where the second level is
	known   *known
	// members is whose credentials it was told to accept, at a position, and was what it was
	// told before, until it has acknowledged that.
	members   *members
	membersAt contract.Position
	was       []*contract.Scopes
}

// end makes both goroutines of the link return.
func (l *link) end() {
	l.once.Do(func() {
		l.cancel()
		_ = l.conn.Close() // the link is given up, whatever Close returns
	})
}

// authenticate finds out which node sends the request. If that fails, it answers the
// request.
func (r *Revoker) authenticate(w http.ResponseWriter, req *http.Request) (Node, bool) {
	token, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		http.Error(w, "a node token is required", http.StatusUnauthorized)
		return Node{}, false
	}
	node, err := r.o.Auth.Authenticate(req.Context(), req.Header.Get(contract.NodeHeader), token)
	if err != nil {
		http.Error(w, "the node token is not valid", http.StatusUnauthorized)
		return Node{}, false
	}
	node.token = token
	return node, true
}

// ServeHTTP accepts one link at [contract.LinkPath] and serves it until it ends.
func (r *Revoker) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	node, ok := r.authenticate(w, req)
	if !ok {
		return
	}
	if req.Method != http.MethodGet || !strings.EqualFold(req.Header.Get("Upgrade"), contract.LinkProtocol) {
		w.Header().Set("Upgrade", contract.LinkProtocol)
		http.Error(w, "this is not an upgrade to the link protocol", http.StatusUpgradeRequired)
		return
	}
	conn, rw, err := httpkit.Hijack(w)
	if err != nil {
		http.Error(w, "the connection cannot be upgraded", http.StatusHTTPVersionNotSupported)
		return
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return
	}
	const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + contract.LinkProtocol + "\r\n\r\n"
	if _, err := conn.Write([]byte(switching)); err != nil {
		return
	}
	l := r.newLink(node, conn, rw.Reader)
	accept := req.Header.Values(contract.AcceptHeader)
	l.accepts, l.reasons = slices.Contains(accept, contract.AcceptLevel2), slices.Contains(accept, contract.AcceptReasons)
	l.scoped, l.planes = slices.Contains(accept, contract.AcceptScopes), slices.Contains(accept, contract.AcceptPlanes)
	if err := l.serve(); err != nil {
		r.log.Info("link ended", "node", node.ID, "error", err)
	}
}

var (
	errTooMany = errors.New("too many links")
	errClosing = errors.New("the control plane is stopping")
	errBye     = errors.New("the filter left")
	errSlow    = errors.New("the filter does not read")
	errFormer  = errors.New("the filter has another link")
)

func (r *Revoker) newLink(node Node, conn net.Conn, in *bufio.Reader) *link {
	a, ok := conn.RemoteAddr().(*net.TCPAddr)
	ctx, cancel := context.WithCancel(r.ctx)
	return &link{
		r: r, ctx: ctx, cancel: cancel, node: node, conn: conn, in: in, local: ok && a.IP.IsLoopback(),
		out: make(chan frame, queueFrames), asked: make(chan struct{}, maxQuestions),
		unjudged: rejudge.New(r.judged, nil),
	}
}

// serve runs a link whose connection is upgraded.
func (l *link) serve() error {
	r := l.r
	defer l.end()
	kind, body, err := l.read()
	if err != nil {
		return fmt.Errorf("read hello: %w", err)
	}
	if kind != contract.FrameHello {
		return fmt.Errorf("frame of type %d instead of a hello", kind)
	}
	if err := contract.DecodeJSON(body, &l.hello); err != nil {
		return fmt.Errorf("decode hello: %w", err)
	}
	if l.hello.Version != contract.LinkVersion && r.o.Refused != nil {
		r.o.Refused(l.node, linkVersions)
	}
	if l.hello.Version != contract.LinkVersion || !validInstance(l.hello.Instance) {
		return fmt.Errorf("hello of version %d is not understood", l.hello.Version)
	}
	// A filter that gets no place is not remembered either.
	if err := r.reserve(l); err != nil {
		return err
	}
	// A filter must be stored before it can hold a lease, so that the next process knows
	// it. Before the filter reads Redis again, Redis must hold what a predecessor has left
	// unpublished, or must no longer be trusted.
	err = r.introduce(l)
	if err == nil {
		err = r.noteReader(l.ctx, l.node.ControlPlane)
	}
	if err == nil {
		r.prepare(l)
		err = r.join(l)
	}
	if err != nil {
		r.release(l)
		return err
	}
	defer r.owned.Done()
	r.judge(r.ctx, l) // its token may have been revoked before it was registered
	if !l.node.Until.IsZero() {
		expiry := alarm.AfterFunc(r.o.Now, l.node.Until, l.end)
		defer expiry.Stop()
	}
	l.work.Go(l.writeLoop)
	if r.o.ChecksTokens != nil && r.o.ChecksTokens(l.node) {
		l.tell()
	}
	err = l.readLoop()
	l.end()
	r.unregister(l, errors.Is(err, errBye))
	l.unjudged.End()
	l.work.Wait()
	if errors.Is(err, errBye) {
		return nil
	}
	return err
}

// prepare returns when Redis is in order and the node of a link is planned, or when this
// takes too long. A filter that is welcomed before Redis is in order, for example while
// Redis is down, does not read Redis until it is told to.
//
// Until its welcome, a filter reads Redis according to what it was told before. After a
// killed predecessor, that is its only source: for a welcomed filter Redis is void until
// all filters are linked or the leases of the predecessor have ended. No revocation is
// confirmed before that in any case, so the wait costs nothing.
//
// The wait is bounded because a filter gives up a link whose Welcome takes as long as a
// lease. Nothing is read from a waiting link, so abandoned links would occupy all places
// without the bound.
func (r *Revoker) prepare(l *link) {
	limit := max(planLimit, time.Until(r.started.Add(contract.Lease-planMargin)))
	ctx, cancel := context.WithTimeout(l.ctx, limit)
	defer cancel()
	r.keeper.attempted(ctx)
	if r.o.Planned != nil {
		r.o.Planned(ctx, l.node)
	}
}

// reserve gives a link its place within the quotas, and ties it to its filter.
func (r *Revoker) reserve(l *link) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return errClosing
	}
	if len(r.ofNode[l.node.ID]) >= r.o.MaxNodeLinks {
		return fmt.Errorf("%w: there are %d of the node", errTooMany, r.o.MaxNodeLinks)
	}
	if err := r.places.Take(l.node.Owner); err != nil {
		return fmt.Errorf("%w: %w", errTooMany, err)
	}
	if r.ofNode[l.node.ID] == nil {
		r.ofNode[l.node.ID] = map[*link]struct{}{}
	}
	r.ofNode[l.node.ID][l] = struct{}{}
	r.joining[l] = struct{}{}
	l.known = r.meet(l)
	l.known.links++
	l.known.latest = l
	for o := range r.ofNode[l.node.ID] {
		if o.former() {
			o.end()
		}
	}
	return nil
}

// vacate returns the place of a link. mu is held.
func (r *Revoker) vacate(l *link) {
	r.places.Give(l.node.Owner)
	of := r.ofNode[l.node.ID]
	if delete(of, l); len(of) == 0 {
		delete(r.ofNode, l.node.ID)
	}
}

// former reports whether the filter of a link has since sent a hello on another link. It
// has then given up this link, and frames that are still read from it may be older than
// what the filter was told on the other. mu is held.
func (l *link) former() bool { return l.known != nil && l.known.latest != l }

// release returns the place of a link that was not welcomed.
func (r *Revoker) release(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.joining, l)
	r.vacate(l)
	if l.known.links--; l.known.links == 0 && !l.known.welcomed {
		r.drop(l)
	}
	r.wakeSeen()
}

// register welcomes a link that has a place and queues what it has missed; from
// then on it gets everything that is published. of is whose credentials it accepts.
func (r *Revoker) register(l *link, of *members) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closing:
		return errClosing
	case l.former():
		return errFormer
	case r.reshapedAt[of.scopes.Of] > of.revision:
		return errReshaped
	}
	w, same := r.welcomeOf(l, of)
	body, err := contract.EncodeJSON(w)
	if err != nil {
		return err
	}
	r.mayAccept(of.scopes)
	r.owned.Add(1)
	delete(r.joining, l)
	r.links[l] = struct{}{}
	l.known.welcomed = true
	if l.members = of; !same {
		l.known.scopes, l.membersAt = nil, r.history.at
	}
	select {
	case r.arrived <- struct{}{}:
	default: // the keeper will look anyway
	}
	l.push(frame{contract.FrameWelcome, body})
	at := r.history.at
	l.entrust(told{at, w.Trust.Epoch == 0})
	for _, f := range r.history.missed(w.From, r.o.Clock.Earliest(), of, l.planes) {
		l.push(f)
	}
	if w.From != at { // otherwise the filter has applied everything, and will report what is on its disk
		l.sent(at, nil)
	}
	return nil
}

// welcomeOf is what a filter is welcomed with; same says that it accepts the credentials
// that it accepted before. mu is held.
func (r *Revoker) welcomeOf(l *link, of *members) (w contract.Welcome, same bool) {
	w, same = contract.Welcome{Log: r.history.id, Trust: r.trust}, of.scopes.Continues(l.known.scopes)
	tells := l.tells(of)
	if tells {
		w.Scopes = of.scopes
	}
	// Who was forgotten is new, whatever it remembers: nobody has waited for it since. So is
	// who accepted the credentials of others: it does not know what concerns these.
	if l.known.welcomed && same {
		w.From = r.history.resume(&l.hello)
	}
	if w.From == 0 {
		w.Floor = r.history.floor
		if !tells && !same { // it cannot tell by itself what it remembers of others
			w.Floor = max(w.Floor, of.revision)
		}
	}
	return w, same
}

// unregister forgets a link. Unless the filter said goodbye, its lease goes on
// counting until it ends.
func (r *Revoker) unregister(l *link, bye bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.links, l)
	r.vacate(l)
	now := time.Now()
	keep := r.lost[:0]
	for _, of := range r.lost {
		if of.end.After(now) {
			keep = append(keep, of)
		}
	}
	clear(r.lost[len(keep):])
	r.lost = keep
	l.known.seen = r.o.Clock.Latest()
	l.known.links--
	r.waits.look()
	if bye && !l.former() {
		r.drop(l)
		l.settle(r.history.at)
	} else if l.lease.After(now) {
		r.lost = append(r.lost, leaseLost{l.lease, l.judges()})
	}
	r.wakeSeen()
}

// push queues a frame. mu is held.
func (l *link) push(f frame) {
	select {
	case l.out <- f:
	default:
		l.r.log.Warn("link is disconnected", "node", l.node.ID, "error", errSlow)
		l.end()
	}
}

// sent notes a position that was queued. A filter that reads but never acknowledges is
// disconnected to bound the memory. mu is held.
func (l *link) sent(at contract.Position, d *round) {
	if len(l.waiting) >= maxUnacked {
		l.end()
	}
	l.waiting = append(l.waiting, unacked{at, time.Now(), d})
}

// settle notes that the filter's memory no longer answers from the state before a position.
// It does not cover what is on the filter's disk. mu is held.
func (l *link) settle(at contract.Position) {
	n := 0
	for n < len(l.waiting) && l.waiting[n].at <= at {
		if d := l.waiting[n].round; d != nil {
			d.settle(l)
		}
		n++
	}
	l.waiting = l.waiting[n:]
}

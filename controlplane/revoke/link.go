package revoke

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Limits of one link.
const (
	// queueFrames bounds what waits to be written; a filter that lets it fill
	// up is disconnected.
	queueFrames = 512
	// maxInbound bounds frames from a filter, none of which is large.
	maxInbound = 8 << 10
	// maxInstance bounds Hello.Instance.
	maxInstance = 128
	// maxQuestions bounds the introspections that one link runs at a time.
	maxQuestions  = 64
	readTimeout   = contract.Lease
	writeTimeout  = time.Second
	helloTimeout  = 3 * time.Second
	questionLimit = time.Second
)

type frame struct {
	kind contract.FrameType
	body []byte
}

// unacked is one frame that must be acknowledged.
type unacked struct {
	seq   uint64
	epoch uint64
	sent  time.Time
	w     *waiter
}

// link is one connection of a filter. Its fields below the line are guarded by
// the Revoker's mu.
type link struct {
	r     *Revoker
	node  Node
	conn  net.Conn
	in    *bufio.Reader
	hello contract.Hello
	// accepts says that the filter understands [contract.FrameLevel2], local that
	// it runs on this host.
	accepts, local bool
	out            chan frame
	quit           chan struct{}
	once           sync.Once
	asked          chan struct{} // semaphore of introspections
	work           sync.WaitGroup

	lease      time.Time
	seq        uint64
	waiting    []unacked
	epochAcked uint64
	told       bool // where the second level is
	known      *known
}

// end makes both goroutines of the link return.
func (l *link) end() {
	l.once.Do(func() {
		close(l.quit)
		_ = l.conn.Close() // it is given up, whatever Close says
	})
}

// ServeHTTP accepts one link at [contract.LinkPath] and serves it until it ends.
func (r *Revoker) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	token, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		http.Error(w, "a node token is required", http.StatusUnauthorized)
		return
	}
	if req.Method != http.MethodGet || !strings.EqualFold(req.Header.Get("Upgrade"), contract.LinkProtocol) {
		w.Header().Set("Upgrade", contract.LinkProtocol)
		http.Error(w, "this is not an upgrade to the link protocol", http.StatusUpgradeRequired)
		return
	}
	node, err := r.o.Auth.Authenticate(req.Context(), req.Header.Get(contract.NodeHeader), token)
	if err != nil {
		http.Error(w, "the node token is not valid", http.StatusUnauthorized)
		return
	}
	node.token = token
	conn, rw, err := http.NewResponseController(w).Hijack()
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
	l.accepts = req.Header.Get(contract.AcceptHeader) == contract.AcceptLevel2
	if err := l.serve(); err != nil {
		r.log.Info("link ended", "node", node.ID, "error", err)
	}
}

var (
	errTooMany = errors.New("too many links")
	errClosing = errors.New("the control plane is stopping")
	errBye     = errors.New("the filter left")
	errSlow    = errors.New("the filter does not read")
)

func (r *Revoker) newLink(node Node, conn net.Conn, in *bufio.Reader) *link {
	a, ok := conn.RemoteAddr().(*net.TCPAddr)
	return &link{
		r: r, node: node, conn: conn, in: in, local: ok && a.IP.IsLoopback(),
		out: make(chan frame, queueFrames), quit: make(chan struct{}), asked: make(chan struct{}, maxQuestions),
	}
}

// serve runs a link whose connection is upgraded.
func (l *link) serve() error {
	r := l.r
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
	if l.hello.Version != contract.LinkVersion || !validInstance(l.hello.Instance) {
		return fmt.Errorf("hello of version %d is not understood", l.hello.Version)
	}
	// Who has no place is not remembered either.
	if err := r.reserve(l); err != nil {
		return err
	}
	// Before a filter can hold a lease it is known to whoever comes after us.
	err = r.introduce(l)
	if err == nil {
		err = r.register(l)
	}
	if err != nil {
		r.release(l)
		return err
	}
	defer r.owned.Done()
	r.judge(r.ctx, l) // its token may have been revoked before it was registered
	if !l.node.Until.IsZero() {
		expiry := time.AfterFunc(l.node.Until.Sub(r.o.Now()), l.end)
		defer expiry.Stop()
	}
	l.work.Go(l.writeLoop)
	if r.o.ChecksTokens != nil && r.o.ChecksTokens(l.node) {
		l.tell()
	}
	err = l.readLoop()
	l.end()
	r.unregister(l, errors.Is(err, errBye))
	l.work.Wait()
	if errors.Is(err, errBye) {
		return nil
	}
	return err
}

// reserve gives a link its place within the quotas, and the filter that of one
// that is known.
func (r *Revoker) reserve(l *link) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return errClosing
	}
	same := 0
	for _, all := range []map[*link]struct{}{r.links, r.joining} {
		for o := range all {
			if o.node.ID == l.node.ID {
				same++
			}
		}
	}
	if len(r.links)+len(r.joining) >= r.o.MaxLinks || same >= r.o.MaxNodeLinks {
		return errTooMany
	}
	r.joining[l] = struct{}{}
	l.known = r.meet(l)
	l.known.links++
	return nil
}

// release gives the place of a link back that was not welcomed.
func (r *Revoker) release(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.joining, l)
	if l.known.links--; l.known.links == 0 && !l.known.welcomed {
		r.drop(l)
	}
	r.wakeSeen()
}

// register welcomes a link that has a place and queues what it has missed; from
// then on it gets everything that is published.
func (r *Revoker) register(l *link) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return errClosing
	}
	items, floor := r.journal.since(r.o.Now(), l.hello.Revision)
	body, err := contract.EncodeJSON(contract.Welcome{Epoch: r.epoch, Revision: r.journal.newest, Floor: floor})
	if err != nil {
		return err
	}
	r.owned.Add(1)
	delete(r.joining, l)
	r.links[l] = struct{}{}
	l.known.welcomed = true
	l.push(frame{contract.FrameWelcome, body})
	l.sendInvalidations(items, nil)
	return nil
}

// unregister forgets a link. Unless the filter said goodbye, its lease goes on
// counting until it ends.
func (r *Revoker) unregister(l *link, bye bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.links, l)
	now := time.Now()
	keep := r.lost[:0]
	for _, end := range r.lost {
		if end.After(now) {
			keep = append(keep, end)
		}
	}
	r.lost = keep
	l.known.seen = r.o.Now()
	l.known.links--
	if bye {
		r.drop(l)
		l.acknowledge(l.seq)
	} else if l.lease.After(now) {
		r.lost = append(r.lost, l.lease)
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

// sendInvalidations queues invalidations; the waiter, if any, hears of the
// acknowledgement of the last frame. mu is held.
func (l *link) sendInvalidations(items []contract.Invalidation, w *waiter) {
	for len(items) > 0 {
		part := items[:min(batch, len(items))]
		items = items[len(part):]
		l.seq++
		u := unacked{seq: l.seq, sent: time.Now()}
		if len(items) == 0 {
			u.w = w
		}
		l.waiting = append(l.waiting, u)
		l.push(frame{contract.FrameInvalidate, (&contract.Invalidate{Seq: l.seq, Items: part}).Encode()})
	}
}

// sendEpoch is sendInvalidations for a new epoch.
func (l *link) sendEpoch(epoch uint64, w *waiter) {
	l.seq++
	body, err := contract.EncodeJSON(contract.Epoch{Seq: l.seq, Epoch: epoch})
	if err != nil {
		l.end()
		return
	}
	l.waiting = append(l.waiting, unacked{seq: l.seq, epoch: epoch, sent: time.Now(), w: w})
	l.push(frame{contract.FrameEpoch, body})
}

// acknowledge settles everything up to seq. mu is held.
func (l *link) acknowledge(seq uint64) {
	n := 0
	for n < len(l.waiting) && l.waiting[n].seq <= seq {
		u := &l.waiting[n]
		l.epochAcked = max(l.epochAcked, u.epoch)
		if u.w != nil {
			u.w.settle()
		}
		n++
	}
	l.waiting = l.waiting[n:]
}

func (l *link) writeLoop() {
	defer l.end()
	for {
		select {
		case <-l.quit:
			return
		case f := <-l.out:
			if err := l.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
				return
			}
			if err := contract.WriteFrame(l.conn, f.kind, f.body); err != nil {
				return
			}
		}
	}
}

// read reads one frame within the limit of what filters send.
func (l *link) read() (contract.FrameType, []byte, error) {
	head, err := l.in.Peek(4)
	if err != nil {
		return 0, nil, err
	}
	if n := binary.BigEndian.Uint32(head); n > maxInbound {
		return 0, nil, fmt.Errorf("frame of %d bytes exceeds the limit of %d", n, maxInbound)
	}
	return contract.ReadFrame(l.in)
}

func (l *link) readLoop() error {
	for {
		if err := l.conn.SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
			return err
		}
		kind, body, err := l.read()
		if err != nil {
			return err
		}
		if err := l.handle(kind, body); err != nil {
			return err
		}
	}
}

func (l *link) handle(kind contract.FrameType, body []byte) error {
	switch kind {
	case contract.FrameRenew, contract.FrameAck:
		n, err := contract.DecodeNumber(body)
		if err != nil {
			return fmt.Errorf("decode frame of type %d: %w", kind, err)
		}
		if kind == contract.FrameRenew {
			l.renew(n)
			return nil
		}
		return l.ack(n)
	case contract.FrameIntrospect:
		q, err := contract.DecodeIntrospect(body)
		if err != nil {
			return fmt.Errorf("decode introspect: %w", err)
		}
		l.introspect(q)
		return nil
	case contract.FrameBye:
		return errBye
	default:
		return fmt.Errorf("unexpected frame of type %d", kind)
	}
}

// renew grants a lease, counted from the receipt, unless an invalidation is
// unacknowledged for longer than a lease.
func (l *link) renew(number uint64) {
	received := time.Now()
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if len(l.waiting) > 0 && received.Sub(l.waiting[0].sent) > contract.Lease {
		return
	}
	l.lease = received.Add(contract.Lease)
	l.push(frame{contract.FrameGranted, contract.EncodeNumber(number)})
}

func (l *link) ack(seq uint64) error {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if seq > l.seq {
		return fmt.Errorf("sequence number %d was never sent", seq)
	}
	l.acknowledge(seq)
	return nil
}

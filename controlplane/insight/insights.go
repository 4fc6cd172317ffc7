package insight

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// kind is that of the stored rows; their scope is the mesh, their name the proxy. Those
// of gateways have a kind of their own, and the control plane as scope.
const (
	kind        = "dataplane_insight"
	kindGateway = "gateway_insight"
)

// Changes wait for others, so that all are written together: an Interval those
// that only count, a moment those that end a stream.
const (
	Interval = 10 * time.Second
	moment   = 20 * time.Millisecond
)

// Options of insights.
type Options struct {
	// Store keeps what was observed; required. It outlives the insights.
	Store store.Status
	// Instance identifies this process in subscriptions.
	Instance string
	// Backends names the authority backends of a mesh, for what an identity says
	// of it; nil = the issuing one only. It must not block.
	Backends func(mesh string) []string
	// Account tells how far a node with an open stream is; false if that is not known;
	// nil = it never is. It must not block.
	Account func(node string) (Last, bool)
	// Changed is called when something else is known about a dataplane, other than how much it
	// was sent; nil = nobody asks. It must not block, and not call the insights.
	Changed func(mesh, dataplane string)
	// Log takes what no caller hears of; required.
	Log *slog.Logger
	// Now is the clock; nil = time.Now.
	Now func() time.Time
	// Past is up to when certificates of a life have ended; nil = Now. See package steady.
	Past func(life time.Duration) time.Time
}

// Insights holds what is known about all proxies. Its methods are safe for
// concurrent use, and those that record something never wait for the store.
type Insights struct {
	Options
	// soon and later have room for one signal each: something is to be written in
	// a moment, or within an Interval.
	soon, later chan struct{}
	// stop ends the writing goroutine, done is closed when it has ended.
	stop context.CancelFunc
	done chan struct{}
	// began is when this process began to record.
	began time.Time

	mu      sync.Mutex
	proxies map[id]*proxy
	streams map[stream]*subscription
	// unwritten are the proxies of which the store has something else; true is urgent.
	unwritten map[id]bool
	closed    bool
	// departed are forgotten ones that may go on asking, orphans counts those that do and
	// are listed for that; see adopt.
	departed map[id]*proxy
	orphans  int
	// refusals and strangers count; unlogged are those of strangers since logged.
	refusals, strangers, unlogged uint64
	logged                        time.Time
	// moved is closed and replaced when a node has changed; moves counts that.
	moved chan struct{}
	moves uint64
}

// id names a node: of a gateway, mesh is cp/<control plane>, and of a proxy of a zone what
// stands before its name.
type id struct{ mesh, name string }

func (i id) key() model.Key {
	if controlPlane, ok := strings.CutPrefix(i.mesh, gatewayScope); ok {
		return model.Key{Kind: kindGateway, Scope: controlPlane, Name: i.name}
	}
	return model.Key{Kind: kind, Scope: i.mesh, Name: i.name}
}

// stream names a stream of a proxy; numbers are unique in the process.
type stream struct {
	of     id
	number uint64
}

// proxy is one record. Its subscriptions are the newest ones, oldest first.
type proxy struct {
	subscriptions []*subscription
	mtls          *MTLS
	// versions are what the proxy said last, for its next subscription.
	versions *Versions
	// streams counts the open ones, those that a newer one closed included.
	streams int
	// forgotten: its dataplane was deleted while a stream was open. It is not
	// written any more and goes with the stream, unless the proxy connects again.
	forgotten bool
	// orphan: its dataplane is gone, and it goes on asking.
	orphan bool
	// created: its dataplane was created while this process ran, so that nothing is missing
	// of what its proxy was given.
	created bool
	facts   remembered
	// trouble and those after it are the word of its agent on its link, which is another connection than its
	// streams.
	trouble    *Trouble
	notReady   string
	unready    *time.Time // since when notReady says something
	conditions []health.Condition
	// returning is set while the node is away that was sent off to come back; each time it
	// is another one.
	returning *struct{ _ byte }
	// logged is when a refusal was logged last, for loggedReason.
	logged       time.Time
	loggedReason string
}

type subscription struct {
	Subscription
	of *proxy
	// live: its stream has not ended, whatever DisconnectTime says.
	live bool
}

// Open reads what is stored. Subscriptions that are open there are closed: no
// stream survives the process that served it. The caller closes the insights
// before the store.
func Open(ctx context.Context, o Options) (*Insights, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Past == nil {
		o.Past = func(time.Duration) time.Time { return o.Now() }
	}
	s := &Insights{
		Options: o, soon: make(chan struct{}, 1), later: make(chan struct{}, 1),
		done: make(chan struct{}), began: o.Now(),
		proxies: map[id]*proxy{}, streams: map[stream]*subscription{}, unwritten: map[id]bool{},
		departed: map[id]*proxy{}, moved: make(chan struct{}),
	}
	for _, kind := range []string{kind, kindGateway} {
		rows, err := o.Store.List(ctx, kind, store.AnyScope)
		if err != nil {
			return nil, fmt.Errorf("read insights: %w", err)
		}
		for _, r := range rows {
			s.read(r)
		}
	}
	// The goroutine outlives the call and ends with Close.
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	go s.write(ctx)
	return s, nil
}

// read takes a stored row.
func (s *Insights) read(r store.StatusRow) {
	var in row
	if err := json.Unmarshal(r.Value, &in); err != nil {
		s.Log.Warn("a stored insight cannot be read and is left out", "mesh", r.Key.Scope, "dataplane", r.Key.Name, "error", err)
		return
	}
	at := id{r.Key.Scope, r.Key.Name}
	if r.Key.Kind == kindGateway {
		at.mesh = gatewayScope + at.mesh
	}
	s.restore(at, &in)
}

// notRunning is why streams are over that were open in the process before.
const notRunning = "the control plane was not running"

func (s *Insights) restore(at id, in *row) {
	p := &proxy{mtls: in.MTLS}
	if in.Node != nil {
		p.facts = *in.Node
	}
	for _, sub := range in.Subscriptions {
		if sub.DisconnectTime == nil {
			sub.DisconnectTime, p.facts.Ended = s.now(), notRunning
			s.changed(at, p, false)
		}
		p.add(&subscription{Subscription: sub, of: p})
	}
	if p.facts.First == nil && len(in.Subscriptions) > 0 { // a row of a version that did not note it
		p.facts.First = &in.Subscriptions[0].ConnectTime
	}
	s.proxies[at] = p
}

// Close writes everything that is not written yet and ends the insights. What is
// observed afterwards is lost.
func (s *Insights) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	<-s.done
	if err := s.flush(ctx, false); err != nil {
		return fmt.Errorf("write insights: %w", err)
	}
	return nil
}

// parse splits the id of a node of a mesh (see mesh.NodeID), of a zone (see mesh.ZoneNodeID), or
// of a gateway, cp/<control plane>/<instance>.
func parse(node string) (id, bool) {
	if rest, ok := strings.CutPrefix(node, gatewayScope); ok {
		controlPlane, name, ok := strings.Cut(rest, "/")
		return id{gatewayScope + controlPlane, name}, ok && controlPlane != "" && name != "" && !strings.Contains(name, "/")
	}
	if proxyType, name, ok := mesh.ParseZoneNode(node); ok {
		return id{mesh.ZoneNodeScope(proxyType), name}, true
	}
	m, name, ok := strings.Cut(node, ".")
	return id{m, name}, ok && m != "" && name != "" && !strings.Contains(m, "/")
}

// now is the clock as the API shows it.
func (s *Insights) now() *time.Time {
	t := s.Now().UTC()
	return &t
}

// tell says that something else is known about a dataplane. s.mu is held.
func (s *Insights) tell(at id) {
	if s.Changed != nil && !at.gateway() {
		s.Changed(at.mesh, at.name)
	}
}

// changed notes that a proxy is to be written. s.mu is held.
func (s *Insights) changed(at id, p *proxy, urgent bool) {
	if p.forgotten {
		return
	}
	s.unwritten[at] = s.unwritten[at] || urgent
	wake := s.later
	if urgent {
		wake = s.soon
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Package server pushes configuration to proxies: the aggregated discovery
// service of xDS over gRPC, in its delta and its state-of-the-world variant
// (envoy.service.discovery.v3.AggregatedDiscoveryService).
//
// Each stream is one state machine with state of its own; nothing is kept by
// node id, because two streams of one node are normal while a proxy reconnects.
// Bytes are marshalled where resources are made, never here. A stream that is
// slow gets the latest state when it catches up and holds up nobody.
package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/meshgate/meshgate/xds/places"
	"github.com/meshgate/meshgate/xds/rejudge"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Limits bounds what one stream, and all of them, may cost. A zero field takes
// its default.
type Limits struct {
	// Places is how many streams with a good token are open at once, and whose. Streams of
	// a server that asks for no tokens count as those of gateways.
	Places places.Limits
	// NodeStreams is how many streams of one node are served at once; a further
	// one ends the oldest. Default 16.
	NodeStreams int
	// Silent is how many streams may be open that have not sent their first
	// request, so that nobody takes the places of proxies without a word; a
	// further one ends the oldest. Default 1024.
	Silent int
	// Names is how many names one stream may subscribe to or hold. Default 100000.
	Names int
	// FirstBytes bounds in bytes the first request of a stream, before whose admission it may
	// be anybody's who has some token. Default 2 MiB, which is 20,000 clusters with short names
	// that a returning Envoy has already; agents begin with their secrets. Without an
	// Authenticator it is as much as the transport permits.
	FirstBytes int
	// NameBytes bounds the names and versions in bytes that one stream has the server
	// remember by its requests. Default 8 MiB, without an Authenticator 64 MiB.
	NameBytes int
	// MessageBytes is where a delta response is cut. Default 1 MiB. One larger
	// resource still travels alone.
	MessageBytes int
	// Window is how many responses of a type may be unanswered. Default 4.
	Window int
	// ClusterWindow is the same for clusters, whose answers are withheld until
	// they are warm. Default 8; below 2 a proxy could wait for what is not sent.
	ClusterWindow int
	// Burst and Rate (per second) bound requests that do more than accept a response:
	// that answer none, refuse one, or ask for other names. One that makes the server look
	// at many names counts as several. Defaults 5000 and 500.
	Burst, Rate int
	// FirstRequest is how long a stream may stay silent after it was opened.
	// Default 10 s.
	FirstRequest time.Duration
	// SecretRetry is the first pause after a secret could not be made; it
	// doubles up to 30 s. Default 1 s.
	SecretRetry time.Duration
	// SecretTimeout is how long the making of one secret may take. Default 30 s.
	SecretTimeout time.Duration
	// SendTimeout is how long a proxy may let a response wait that it does not
	// read. Default 30 s.
	SendTimeout time.Duration
}

// withDefaults fills in what is zero; strangers says that not only the proxy itself can come.
func (l Limits) withDefaults(strangers bool) Limits {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	l.Places = l.Places.WithDefaults()
	set(&l.NodeStreams, 16)
	set(&l.Silent, 1024)
	set(&l.Names, 100000)
	if strangers {
		set(&l.FirstBytes, 2<<20)
		set(&l.NameBytes, 8<<20)
	}
	set(&l.FirstBytes, maxRequest)
	set(&l.NameBytes, 4*maxRequest)
	set(&l.MessageBytes, 1<<20)
	set(&l.Window, 4)
	set(&l.ClusterWindow, 8)
	set(&l.Burst, 5000)
	set(&l.Rate, 500)
	l.ClusterWindow = max(l.ClusterWindow, 2)
	if l.FirstRequest <= 0 {
		l.FirstRequest = 10 * time.Second
	}
	if l.SecretRetry <= 0 {
		l.SecretRetry = time.Second
	}
	if l.SecretTimeout <= 0 {
		l.SecretTimeout = 30 * time.Second
	}
	if l.SendTimeout <= 0 {
		l.SendTimeout = 30 * time.Second
	}
	return l
}

// Config is what a server is made of. Snapshots, Nodes and Log are required.
type Config struct {
	Snapshots *snapshot.Store
	Nodes     Nodes
	// Auth is nil where the transport proves the peer, as on the relay's socket.
	Auth Authenticator
	// Owner says whose a token is that Auth knows. With a nil function all are of gateways.
	Owner func(token string) places.Owner
	// Secrets is nil where secrets are part of no set.
	Secrets  Secrets
	Observer Observer
	// Confirmed is told when a stream's proxy has confirmed a further reading,
	// on the stream's goroutine: it must not block. May be nil.
	Confirmed func(node string, st snapshot.State)
	Limits    Limits
	Log       *slog.Logger
	// Now is the wall clock that tokens end by; nil is that of the host.
	Now func() time.Time
}

// Server serves the aggregated discovery service.
type Server struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	cfg   Config
	diffs diffs

	mu      sync.Mutex
	streams map[*stream]struct{}
	byNode  map[string][]*stream // admitted ones, oldest first
	silent  []*stream            // those without a request yet, oldest first
	places  *places.Places
	last    uint64
	closed  bool

	unjudged *rejudge.Set[*stream] // whose recheck failed
	closing  chan struct{}
	work     sync.WaitGroup // handlers and what they started
}

// New returns a server; Register makes it reachable and Close ends it.
func New(cfg Config) (*Server, error) {
	if cfg.Snapshots == nil || cfg.Nodes == nil || cfg.Log == nil {
		return nil, errors.New("an xDS server needs snapshots, nodes and a logger")
	}
	if cfg.Observer == nil {
		cfg.Observer = Nobody{}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Limits = cfg.Limits.withDefaults(cfg.Auth != nil)
	s := &Server{cfg: cfg, streams: map[*stream]struct{}{}, byNode: map[string][]*stream{}, places: places.New(cfg.Limits.Places), closing: make(chan struct{})}
	s.unjudged = rejudge.New(s.recheckLater, s.notRechecked)
	return s, nil
}

// Register adds the service to a gRPC server, which should have Options.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	discovery.RegisterAggregatedDiscoveryServiceServer(r, s)
}

// connectionStreams is how many streams one connection carries; an Envoy opens
// one, a relay too. A client that opens more than it was told is reset.
const connectionStreams = 128

// connectionBuffer is the size of the buffers of a connection, in bytes.
const connectionBuffer = 4 << 10

// Nobody is known before the first stream, which shows its token: a connection has
// prefaceTime to begin HTTP/2, and streamlessTime without a stream. Proxies open
// theirs at once.
const (
	prefaceTime    = 10 * time.Second
	streamlessTime = time.Minute
)

// maxRequest bounds a request of an admitted stream in bytes; inbound.go says what of it
// becomes memory.
const maxRequest = 16 << 20

// Options are the settings of a gRPC server that proxies need: pings more often
// than the default permits (an Envoy sends one each 5 s, also when idle), an end
// to connections whose peer is gone or opens no stream, requests that list thousands of
// names but are not compressed, and the codec of the messages: a server without it can
// neither read nor send any. Its gRPC server serves nothing else.
func Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, MaxConnectionIdle: streamlessTime}),
		grpc.ConnectionTimeout(prefaceTime),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.ChainStreamInterceptor(plainStream),
		grpc.MaxConcurrentStreams(connectionStreams),
		// A connection carries one stream that is silent most of the time: buffers
		// of the default size would be most of what a proxy costs.
		grpc.ReadBufferSize(connectionBuffer), grpc.WriteBufferSize(connectionBuffer),
	}
}

// PushSecret replaces a secret on the open streams of a node that subscribe to
// it, as after a rotation. generation is what the node's set wanted before the
// secret was made: a stream that has turned to another one meanwhile asks for its
// own and does not take this. Streams that open later ask Secrets.
func (s *Server) PushSecret(node, generation string, r *resource.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.byNode[node] {
		st.deliver(made{name: r.Name, resource: r, generation: generation})
	}
}

// Close ends every stream with Unavailable and waits for them, so that proxies
// turn to another replica. It returns the context's error if that ends first;
// then the gRPC server must be stopped to break blocked writes.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.unjudged.End()
		s.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Streams returns the number of open streams.
func (s *Server) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// Package server pushes configuration to proxies. It implements the aggregated discovery
// service of xDS over gRPC, in its delta and its state-of-the-world variant
// (envoy.service.discovery.v3.AggregatedDiscoveryService).
//
// Each stream is one state machine with its own state. Nothing is kept by node id, because two
// streams of one node are normal while a proxy reconnects. Resources are encoded where they
// are made, never here. A slow stream delays no other stream, and gets the latest state when
// it catches up.
package server

import (
	"context"
	"errors"
	"log/slog"
	"math"
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

// Limits bounds what one stream, and all streams together, may cost. A zero field takes its
// default.
type Limits struct {
	// Places limits the number of open streams with a good token, also per owner of the token.
	// If the server asks for no tokens, all streams count as those of gateways.
	Places places.Limits
	// NodeStreams is the maximum number of streams per node. A further stream ends the oldest
	// one. Default 16.
	NodeStreams int
	// Silent is the maximum number of streams that have not sent their first request, so that
	// clients without a request cannot take the places of proxies. A further stream ends the
	// oldest one. Default 1024.
	Silent int
	// Names is how many names one stream may subscribe to or hold. Default 100000.
	Names int
	// FirstBytes is the maximum length in bytes of the first request of a stream. It is read
	// before admission, so any holder of some token may have sent it. Default 2 MiB, enough
	// for a returning Envoy that has 20,000 clusters with short names; agents begin with their
	// secrets. Without an Authenticator, the default is what the transport permits.
	FirstBytes int
	// NameBytes is the maximum length in bytes of all names and versions that one stream makes
	// the server remember by its requests. Default 8 MiB, without an Authenticator 64 MiB.
	NameBytes int
	// MessageBytes is the length at which a delta response is cut. Default 1 MiB. A larger
	// resource travels alone.
	MessageBytes int
	// ResourceBytes is the maximum length of a resource in a delta response. A larger one is not
	// sent and counts as refused. By default agents take what is sent ([MaxResponse]); without an
	// Authenticator there is no limit, because an Envoy has none.
	ResourceBytes int
	// Window is how many responses of a type may be unanswered. Default 4.
	Window int
	// ClusterWindow is the window for clusters, whose answers are withheld until they are
	// warm. Default 8. Below 2, a proxy could wait for a response that is never sent.
	ClusterWindow int
	// Burst and Rate (per second) limit requests that do more than accept a response: those
	// that answer no response, refuse one, or ask for other names. A request that makes the
	// server look at many names counts as several. Defaults 5000 and 500.
	Burst, Rate int
	// FirstRequest is how long a stream may stay silent after it opens. Default 10 s.
	FirstRequest time.Duration
	// SecretRetry is the first pause after a secret could not be made. It doubles up to 30 s.
	// Default 1 s.
	SecretRetry time.Duration
	// SecretTimeout is the maximum time for making one secret. Default 30 s.
	SecretTimeout time.Duration
	// SendTimeout is how long a response may wait for a proxy that does not read. Default 30
	// s.
	SendTimeout time.Duration
}

// withDefaults fills in zero fields. strangers says that clients other than the proxy itself
// can connect.
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
		set(&l.ResourceBytes, MaxResponse-besides)
	}
	set(&l.ResourceBytes, math.MaxInt)
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

// Config is the configuration of a server. Snapshots, Nodes and Log are required.
type Config struct {
	Snapshots *snapshot.Store
	Nodes     Nodes
	// Auth is nil where the transport proves the peer, as on the socket of the relay.
	Auth Authenticator
	// Owner returns the owner of a token that Auth has accepted. If Owner is nil, all tokens
	// count as those of gateways.
	Owner func(token string) places.Owner
	// Secrets is nil where no set contains secrets to be made.
	Secrets  Secrets
	Observer Observer
	// Confirmed is called when a proxy has confirmed a further state. It runs on the goroutine
	// of the stream and must not block. It may be nil.
	Confirmed func(node string, st snapshot.State)
	Limits    Limits
	Log       *slog.Logger
	// Now is the wall clock for the expiry of tokens; nil means the clock of the host.
	Now func() time.Time
}

// Server serves the aggregated discovery service.
type Server struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	cfg   Config
	diffs diffs

	mu      sync.Mutex
	streams map[*stream]struct{}
	byNode  map[string][]*stream // admitted streams, oldest first
	silent  []*stream            // streams without a request yet, oldest first
	places  *places.Places
	last    uint64
	closed  bool

	unjudged *rejudge.Set[*stream] // streams whose recheck failed
	closing  chan struct{}
	work     sync.WaitGroup // handlers and the goroutines that they started
}

// New returns a server. Register makes it reachable and Close ends it.
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

// Register adds the service to a gRPC server, which should be created with Options.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	discovery.RegisterAggregatedDiscoveryServiceServer(r, s)
}

// connectionStreams is the maximum number of streams per connection. An Envoy or a relay opens
// one. gRPC resets streams that a client opens beyond the limit.
const connectionStreams = 128

// connectionBuffer is the size of each buffer of a connection, in bytes.
const connectionBuffer = 4 << 10

// A client shows its token only with its first stream, so a connection may be anybody's before
// that. It has prefaceTime to begin HTTP/2, and may stay without a stream for streamlessTime.
// Proxies open their stream at once.
const (
	prefaceTime    = 10 * time.Second
	streamlessTime = time.Minute
)

// maxRequest is the maximum length in bytes of a request of an admitted stream. inbound.go
// limits how much memory a request takes.
const maxRequest = 16 << 20

// Options returns the settings that a gRPC server for proxies needs. It accepts more frequent
// pings than by default: an Envoy sends one every 5 s, even when idle. It closes connections
// whose peer is gone or opens no stream. It accepts requests that list thousands of names, but
// no compressed ones. It uses the codec of this package, without which the server can neither
// read nor send messages; so the gRPC server can serve nothing else.
func Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, MaxConnectionIdle: streamlessTime}),
		grpc.ConnectionTimeout(prefaceTime),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.ChainStreamInterceptor(plainStream),
		grpc.MaxConcurrentStreams(connectionStreams),
		// A connection carries one stream that is silent most of the time. Buffers of the
		// default size would be most of the memory that a proxy costs.
		grpc.ReadBufferSize(connectionBuffer), grpc.WriteBufferSize(connectionBuffer),
	}
}

// PushSecret replaces a secret on the open streams of a node that subscribe to it, for example
// after a rotation. generation is what the node's set wanted before the secret was made. A
// stream whose set has turned to another generation ignores the pushed secret and asks for its
// own. Streams that open later ask Secrets.
func (s *Server) PushSecret(node, generation string, r *resource.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.byNode[node] {
		st.deliver(made{name: r.Name, resource: r, generation: generation})
	}
}

// Close ends every stream with Unavailable, so that proxies turn to another replica, and waits
// for the streams. If the context ends first, Close returns its error; then the gRPC server
// must be stopped to break blocked writes.
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

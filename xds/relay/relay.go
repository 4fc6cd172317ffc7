// Package relay connects one Envoy to the control plane. To the Envoy it is the discovery
// server, on a Unix socket, with a cache on disk. To the control plane it is the proxy. So a
// restarted Envoy is live at once even while the control plane is away, and Envoy need not
// handle tokens and keep-alive.
//
// The relay confirms a response to the control plane only when the local Envoy has confirmed
// it. It refuses upstream what Envoy refuses, with Envoy's reason; the last good version then
// takes the place of the refused one, here and on disk.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/meshgate/meshgate/xds/logsink"
	"github.com/meshgate/meshgate/xds/machine"
	"github.com/meshgate/meshgate/xds/naming"
	"github.com/meshgate/meshgate/xds/probing"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/scraping"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/structpb"
)

// closeWait is how long open local streams may take to end.
const closeWait = 2 * time.Second

// Config is the configuration of a relay. Token, Metadata, Machine and the functions from
// Unknown on are optional.
type Config struct {
	// Node is the node id, for both Envoy and the control plane.
	Node string
	// Password is what a stream of Envoy has to show. A stream without it is refused before
	// anything is read from it.
	Password string
	// Socket is the path of the Unix socket (0600). Its directory becomes 0700.
	Socket string
	// Cache is the path of the cache file (0600).
	Cache string
	// Dial returns a connection to the control plane, including its TLS. It is called for each
	// attempt and should use DialOptions.
	Dial func(context.Context) (*grpc.ClientConn, error)
	// Token is called at each attempt, so that a renewed token is used.
	Token func() (string, error)
	// Metadata is what the node tells the control plane about itself. It may be nil.
	Metadata *structpb.Struct
	// Unknown, if not nil, is called before the next attempt if the control plane does not, or
	// no longer, know the node.
	Unknown func(context.Context)
	// Report is called with the reason why an attempt to reach the control plane failed, and
	// with nil when the control plane answers. The mere end of a stream is no failure: the
	// next attempt decides, unless what ended it lasts.
	Report func(error)
	// Saved is called with the result of each attempt to write the cache.
	Saved func(error)
	// Machine says what configuration may name on this machine. Configuration that names
	// anything else of it is refused.
	Machine machine.Bounds
	// Secrets is called with the secrets that Envoy is served, whenever they have changed.
	Secrets func([]*resource.Resource)
	// Names is called with the host names of the mesh whenever Envoy has confirmed other ones,
	// and with nil when it has none any more.
	Names func(naming.Table)
	// Sinks is called with what Envoy is served about access logs, and with what it has confirmed,
	// whenever that has changed: a logger that is about to end still writes.
	Sinks func(logsink.Table)
	// Metrics is called with what a page of metrics consists of whenever Envoy has confirmed
	// something else, and with nil when it has nothing of that any more.
	Metrics func(*scraping.Settings)
	// Probes is called with the probes of workloads whenever Envoy has confirmed other ones, and
	// with nil when it has none any more.
	Probes func([]probing.Probe)
	Log    *slog.Logger
}

// Status is the state of the upstream half.
type Status struct {
	// Connected is true while a stream is open on which the control plane has answered.
	Connected bool
	// Since is when Connected last changed.
	Since time.Time
	// Ready is true once an Envoy can be served, from the cache or after the first complete
	// answer.
	Ready bool
	// Error is why the last stream ended, empty while connected.
	Error string
}

// Relay consists of both halves. Run owns all its goroutines.
type Relay struct {
	cfg   Config
	local *snapshot.Store
	ready chan struct{} // closed when there is something to serve
	bound chan struct{} // closed when the socket accepts connections
	// part ends parting, after which there is no stream to the control plane. parted is closed when
	// there is none any more.
	parting context.Context //nolint:containedctx // it begins before Run and ends in it
	part    context.CancelFunc
	parted  chan struct{}

	mu     sync.Mutex
	status Status
	// refused holds the listeners that Envoy refused and of which there is no earlier version.
	// turned is closed when refused changes.
	refused map[string]string
	turned  chan struct{}

	// The other fields belong to the goroutine of the upstream half. It holds mu while it
	// changes one of the tables.
	current  table  // what Envoy is served
	good     table  // what Envoy has confirmed
	cache    cache  // good, on disk
	revision uint64 // of the local snapshot
	answered map[resource.TypeURL]struct{}
	// unsaved says that the cache could not be written; a value in saving starts another
	// attempt.
	unsaved bool
	saving  chan struct{}
	// judging has a value when the tables are to be judged again.
	judging chan struct{}
	// named are the host names that were told last, and sinks the clusters that describe sinks.
	named *resource.Resource
	sinks []*resource.Resource
	// scraped says what a page of metrics consists of, as it was told last.
	scraped *resource.Resource
	// probed are the probes that were told last.
	probed *resource.Resource
}

// SaveAgain makes the relay try again to write a cache that could not be written.
func (r *Relay) SaveAgain() {
	select {
	case r.saving <- struct{}{}:
	default: // an attempt is already due
	}
}

func (r *Relay) report(err error) {
	if r.cfg.Report != nil {
		r.cfg.Report(err)
	}
}

func (r *Relay) tellSecrets() {
	if r.cfg.Secrets == nil {
		return
	}
	var all []*resource.Resource
	for _, s := range r.current[resource.Secret] {
		all = append(all, s)
	}
	r.cfg.Secrets(all)
}

// tell tells everything about which the parts of the agent are told, except for secrets.
func (r *Relay) tell() {
	r.tellNames()
	r.tellSinks()
	r.tellMetrics()
	r.tellProbes()
}

// tellNames tells the host names that Envoy has confirmed: by then it is about to listen for them.
func (r *Relay) tellNames() {
	now := r.good[resource.Cluster][naming.Cluster]
	if r.cfg.Names == nil || now == r.named {
		return
	}
	r.named = now
	if now == nil {
		r.cfg.Names(nil)
		return
	}
	table, err := naming.Decode(now.Body)
	if err != nil {
		r.cfg.Log.Error("names_not_read", "error", err)
		return
	}
	r.cfg.Names(table)
}

// tellSinks tells where lines of access logs may go. Envoy logs to what it is served as soon as it
// has it, and to what it had until the listeners that it replaces have drained.
func (r *Relay) tellSinks() {
	if r.cfg.Sinks == nil {
		return
	}
	var now []*resource.Resource
	for _, of := range []table{r.good, r.current} { // the last one counts
		now = append(now, of.named(resource.Cluster, logsink.Concerns)...)
	}
	if slices.Equal(now, r.sinks) {
		return
	}
	r.sinks = now
	var t logsink.Table
	for _, c := range now {
		if err := t.Add(c.Body); err != nil {
			r.cfg.Log.Error("sink_not_read", "error", err)
		}
	}
	r.cfg.Sinks(t)
}

// tellMetrics tells what a page of metrics consists of.
func (r *Relay) tellMetrics() {
	now := r.good[resource.Cluster][scraping.Told]
	if r.cfg.Metrics == nil || now == r.scraped {
		return
	}
	r.scraped = now
	if now == nil {
		r.cfg.Metrics(nil)
		return
	}
	s, err := scraping.Read(now.Body)
	if err != nil {
		r.cfg.Log.Error("metrics_not_read", "error", err)
		return
	}
	r.cfg.Metrics(s)
}

// tellProbes tells which workloads are probed.
func (r *Relay) tellProbes() {
	now := r.good[resource.Cluster][probing.Told]
	if r.cfg.Probes == nil || now == r.probed {
		return
	}
	r.probed = now
	if now == nil {
		r.cfg.Probes(nil)
		return
	}
	probes, err := probing.Read(now.Body)
	if err != nil {
		r.cfg.Log.Error("probes_not_read", "error", err)
		return
	}
	r.cfg.Probes(probes)
}

// New checks the configuration and reads the cache. A cache that is missing, damaged or of
// another node is no error: the control plane fills it again.
func New(cfg Config) (*Relay, error) {
	if cfg.Node == "" || cfg.Password == "" || cfg.Socket == "" || cfg.Cache == "" || cfg.Dial == nil || cfg.Log == nil {
		return nil, errors.New("a relay needs node, password, socket, cache, dial function and logger")
	}
	r := &Relay{
		cfg: cfg, local: snapshot.New(), ready: make(chan struct{}), bound: make(chan struct{}), parted: make(chan struct{}),
		current: table{}, good: table{}, answered: map[resource.TypeURL]struct{}{},
		status: Status{Since: time.Now()}, refused: map[string]string{}, turned: make(chan struct{}),
		saving: make(chan struct{}, 1), judging: make(chan struct{}, 1), cache: cache{path: cfg.Cache, node: cfg.Node},
	}
	r.parting, r.part = context.WithCancel(context.Background())
	stored, err := r.cache.load()
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		cfg.Log.Warn("xds_cache_ignored", "path", cfg.Cache, "error", err)
	default:
		for _, x := range stored.all() {
			if isFleeting(x) || asksForFleeting(x) {
				r.cache.whole = false // the next write leaves it out
				continue
			}
			// The bounds of the machine may have changed since the file was written.
			own, err := r.admit(x.Type, x.Name, x.Version, x.Body)
			if err != nil {
				if x.Type == resource.Listener {
					r.refuse(x.Name, err.Error())
				}
				continue
			}
			r.current.put(own)
			r.good.put(own)
		}
		r.publish()
		r.serveable()
		r.tellSecrets()
		r.tell()
	}
	return r, nil
}

// DialOptions returns the settings of a connection to the control plane. A half-open
// connection is noticed after some 12 s, because gRPC does not probe before 10 s of silence.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 2 * time.Second, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(server.MaxResponse)),
	}
}

// Status returns the current state.
func (r *Relay) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Bound returns a channel that is closed when the socket accepts connections.
func (r *Relay) Bound() <-chan struct{} { return r.bound }

// Ready returns a channel that is closed when a connecting Envoy is served without waiting.
func (r *Relay) Ready() <-chan struct{} { return r.ready }

// Run serves until the context ends, which is no error. It returns when all its goroutines
// have ended.
func (r *Relay) Run(ctx context.Context) error {
	lis, err := listen(ctx, r.cfg.Socket)
	if err != nil {
		return err
	}
	ads, err := server.New(server.Config{Snapshots: r.local, Nodes: gate{r}, Log: r.cfg.Log})
	if err != nil {
		_ = lis.Close()
		return fmt.Errorf("set up the local server: %w", err)
	}
	g := grpc.NewServer(append([]grpc.ServerOption{grpc.ChainStreamInterceptor(newDoor(&r.cfg).stream)}, server.Options()...)...)
	ads.Register(g)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer r.part()
	var work sync.WaitGroup
	work.Go(func() {
		defer close(r.parted)
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(r.parting, stop)()
		r.follow(ctx)
	})
	failed := make(chan error, 1)
	work.Go(func() { failed <- g.Serve(lis) })
	close(r.bound)
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	cancel()
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer stop()
	_ = ads.Close(end)
	g.Stop()
	_ = ads.Close(context.WithoutCancel(ctx)) // blocked writes are broken now
	work.Wait()
	if err != nil {
		return fmt.Errorf("serve the socket: %w", err)
	}
	return nil
}

// Part ends the stream to the control plane for good, and returns when it has ended or with ctx.
// Envoy keeps what it has.
func (r *Relay) Part(ctx context.Context) {
	r.part()
	select {
	case <-r.parted:
		r.note(false, "the proxy leaves")
	case <-ctx.Done():
	}
}

// listen opens the socket in a directory that only its owner may enter, so that nobody can
// connect before the mode of the socket is set.
func listen(ctx context.Context, path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the socket: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory needs x
		return nil, fmt.Errorf("close the directory of the socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the old socket: %w", err)
	}
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on the socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = lis.Close()
		return nil, fmt.Errorf("set the mode of the socket: %w", err)
	}
	return lis, nil
}

// gate admits the local Envoy once there is something to serve, so that Envoy never starts
// empty.
type gate struct{ r *Relay }

// Connect implements server.Nodes.
func (g gate) Connect(ctx context.Context, node string, _ bool) (func(), error) {
	if node != g.r.cfg.Node {
		return nil, server.ErrUnknownNode
	}
	select {
	case <-g.r.ready:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *Relay) serveable() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.status.Ready {
		r.status.Ready = true
		close(r.ready)
	}
}

func (r *Relay) note(connected bool, cause string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.Connected != connected {
		r.status.Since = time.Now()
	}
	r.status.Connected, r.status.Error = connected, cause
}

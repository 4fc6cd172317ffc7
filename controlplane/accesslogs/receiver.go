package accesslogs

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	logsv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	recordv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/meshgate/meshgate/xds/logsink"
)

// Bounds of what the receiver holds.
const (
	// minConnections and maxStreams bound what Envoy has open: each of its workers has a
	// connection of its own.
	minConnections = 128
	maxStreams     = 32
	// maxBatch is the largest accepted call in bytes. Envoy sends some 8 KiB, and at least a line.
	// A larger one is lost.
	maxBatch = 512 << 10
	// maxSinks bounds the sinks with lines, and with them open files, connections and goroutines.
	// One that nobody writes to takes no place.
	maxSinks = 64
	// leaveTimeout bounds how long the receiver waits for sinks when it ends: a file of a file
	// system that does not answer keeps its goroutine for ever.
	leaveTimeout = lastWrites + time.Second
)

// maxConnections is how many connections there may be at the same time: those of all workers of
// two Envoys, because one may drain while the next one works, and some more.
func maxConnections(workers int) int { return max(minConnections, 4*max(workers, runtime.NumCPU())) }

// Options configure a receiver.
type Options struct {
	// Directories are where files may be. One that does not exist is created when it is needed.
	// Paths that are not absolute are in the first one.
	Directories []string
	// MaxSize is the size in bytes at which a file is put aside as name.1, and Keep how many of
	// those are kept.
	MaxSize int64
	Keep    int
	// Reaches returns an error for an address that this machine must not lead to. host is a name
	// or an IP address. Addresses of names are checked as well.
	Reaches func(host string, port uint16) error
	// Workers is how many workers Envoy has; 0 means one for each CPU.
	Workers int
	// Changed is called when [Receiver.Trouble] may have changed. It must not block.
	Changed func()
	Log     *slog.Logger
}

// Receiver is an OTLP server (LogsService). Its methods may be called concurrently.
type Receiver struct {
	logsv1.UnimplementedLogsServiceServer
	o Options

	mu sync.Mutex
	// address is that of the proxy.
	address string
	sinks   map[string]*sink
	// running counts the goroutines of sinks, also of those that were taken away and still write.
	running int
	// refused are the sinks that may not be written, with the reasons.
	refused map[string]refusal
	// unknown counts lines without a sink.
	unknown uint64
	closed  bool
	// writing are the goroutines of the sinks.
	writing sync.WaitGroup
}

type refusal struct {
	what logsink.Sink
	why  error
}

// New returns a receiver without sinks.
func New(o Options) *Receiver {
	return &Receiver{o: o, sinks: map[string]*sink{}, refused: map[string]refusal{}}
}

// Set replaces the sinks. Those that stay keep their queues; those that go write what they have.
func (r *Receiver) Set(t logsink.Table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.address = t.Address
	for name, s := range r.sinks {
		if _, stays := t.Sinks[name]; !stays {
			s.end()
			delete(r.sinks, name)
		}
	}
	r.refused = map[string]refusal{}
	for _, name := range slices.Sorted(maps.Keys(t.Sinks)) {
		if r.sinks[name] != nil {
			continue
		}
		out, err := r.open(t.Sinks[name])
		if err != nil {
			r.refused[name] = refusal{t.Sinks[name], err}
			continue
		}
		r.sinks[name] = newSink(t.Sinks[name], out, &r.o)
	}
	r.o.Changed()
}

// open returns the output of a sink. Nothing is opened before there is a line to write.
func (r *Receiver) open(s logsink.Sink) (output, error) {
	if s.File != "" {
		return newFile(s.File, &r.o)
	}
	return newStream(s.TCP, r.o.Reaches)
}

// Export implements the LogsService of OTLP. It never fails: Envoy could only send the lines
// again.
func (r *Receiver) Export(_ context.Context, in *logsv1.ExportLogsServiceRequest) (*logsv1.ExportLogsServiceResponse, error) {
	for _, of := range in.GetResourceLogs() {
		s, address := r.sink(sinkOf(of))
		for _, scope := range of.GetScopeLogs() {
			if s == nil {
				r.lose(len(scope.GetLogRecords()))
				continue
			}
			for _, record := range scope.GetLogRecords() {
				if !s.put(line(record.GetBody(), address)) {
					r.lose(1)
				}
			}
		}
	}
	return &logsv1.ExportLogsServiceResponse{}, nil
}

// sink returns a sink, whose goroutine runs from its first line on, and the address of the proxy.
// Where too many run, there is none.
func (r *Receiver) sink(name string) (*sink, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sinks[name]
	if s == nil || s.running {
		return s, r.address
	}
	if r.running >= maxSinks {
		if !s.crowded {
			s.crowded = true
			r.o.Changed()
		}
		return nil, r.address
	}
	if s.crowded {
		s.crowded = false
		r.o.Changed()
	}
	s.running = true
	r.running++
	r.writing.Go(func() {
		s.run()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running--
	})
	return s, r.address
}

// sinkOf returns the name of the sink of some lines.
func sinkOf(of *recordv1.ResourceLogs) string {
	for _, a := range of.GetResource().GetAttributes() {
		if a.GetKey() == logsink.Attribute {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// lose counts lines that belong to no sink. Those of a sink that was just taken away are normal.
func (r *Receiver) lose(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > 0 && r.unknown == 0 {
		r.o.Log.Info("lines of access logs are dropped, because their sink was taken away or refused")
	}
	r.unknown += uint64(n) //nolint:gosec // not negative
}

// Serve receives lines until ctx ends, then writes what is queued. It returns when all goroutines
// have ended, or after leaveTimeout if file systems keep some of them, and closes the listener.
func (r *Receiver) Serve(ctx context.Context, lis net.Listener) error {
	g := grpc.NewServer(
		grpc.ForceServerCodecV2(newCodec()), grpc.MaxRecvMsgSize(maxBatch), grpc.MaxConcurrentStreams(maxStreams),
		grpc.WaitForHandlers(true), grpc.InitialWindowSize(64<<10), grpc.InitialConnWindowSize(256<<10),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)
	logsv1.RegisterLogsServiceServer(g, r)
	failed := make(chan error, 1)
	go func() { failed <- g.Serve(netutil.LimitListener(lis, maxConnections(r.o.Workers))) }()
	var err error
	select {
	case <-ctx.Done():
		g.Stop()
		<-failed //nolint:errcheck // it was told to end
	case err = <-failed:
		g.Stop()
	}
	r.mu.Lock()
	r.closed = true
	for _, s := range r.sinks {
		s.end()
	}
	r.mu.Unlock()
	r.leave()
	if err != nil {
		return fmt.Errorf("serve the socket for access logs: %w", err)
	}
	return nil
}

// leave waits for the goroutines of the sinks, which were told to end.
func (r *Receiver) leave() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.writing.Wait()
	}()
	t := time.NewTimer(leaveTimeout)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
		r.o.Log.Warn("the last lines of access logs may be lost: what they are written to does not answer")
	}
}

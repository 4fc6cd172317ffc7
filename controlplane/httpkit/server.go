package httpkit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of a server. Zero values mean the defaults of [DefaultLimits].
type Limits struct {
	HeaderBytes       int           // request line and header fields
	BodyBytes         int64         // request body
	ReadHeaderTimeout time.Duration // until the header is complete
	ReadTimeout       time.Duration // until the body is complete
	WriteTimeout      time.Duration // until the response is written
	IdleTimeout       time.Duration // between requests of one connection
	Grace             time.Duration // for running requests at shutdown
	// Anonymous bounds connections without a verified client certificate, in total and for
	// each address, and lets them be idle for only a minute. Hijacked connections do not
	// count. Bounded does the same for all connections, whoever has them. [Limits.Or] changes
	// neither.
	Anonymous, Bounded bool
}

// DefaultLimits suit APIs with small documents and waits of up to 30 s.
func DefaultLimits() Limits {
	return Limits{
		HeaderBytes: 32 << 10, BodyBytes: 2 << 20,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: 60 * time.Second, IdleTimeout: 2 * time.Minute, Grace: 10 * time.Second,
	}
}

// Or replaces zero values by those of another set of limits.
func (l Limits) Or(d Limits) Limits {
	if l.HeaderBytes == 0 {
		l.HeaderBytes = d.HeaderBytes
	}
	if l.BodyBytes == 0 {
		l.BodyBytes = d.BodyBytes
	}
	for _, t := range []struct{ v, d *time.Duration }{
		{&l.ReadHeaderTimeout, &d.ReadHeaderTimeout}, {&l.ReadTimeout, &d.ReadTimeout},
		{&l.WriteTimeout, &d.WriteTimeout}, {&l.IdleTimeout, &d.IdleTimeout}, {&l.Grace, &d.Grace},
	} {
		if *t.v == 0 {
			*t.v = *t.d
		}
	}
	return l
}

// Server is one HTTP server on one listener. TLS, if any, is up to the listener.
type Server struct {
	http     *http.Server
	grace    time.Duration
	log      *slog.Logger
	visitors *visitors // nil without [Limits.Anonymous] and [Limits.Bounded]
}

// NewServer returns a server named name in logs and for the meters. It wraps the handler
// with body limit, request log and recovery, see [Observe].
func NewServer(name string, h http.Handler, log *slog.Logger, l Limits, meters ...Meter) *Server {
	l = l.Or(DefaultLimits())
	log = log.With("server", name)
	named := make([]Meter, len(meters))
	for i, m := range meters {
		named[i] = serverMeter{name, m}
	}
	s := &Server{
		grace: l.Grace, log: log,
		http: &http.Server{
			Handler:        Observe(http.MaxBytesHandler(h, l.BodyBytes), log, named...),
			MaxHeaderBytes: l.HeaderBytes, ReadHeaderTimeout: l.ReadHeaderTimeout,
			ReadTimeout: l.ReadTimeout, WriteTimeout: l.WriteTimeout, IdleTimeout: l.IdleTimeout,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
	}
	if l.Anonymous || l.Bounded {
		s.visitors = newVisitors(l.Bounded)
		s.http.ConnState = s.visitors.follow
	}
	return s
}

// Serve accepts connections until ctx ends, lets running requests finish for the grace
// period, and then closes what is left. It owns the listener and every goroutine it started.
// It returns nil after an orderly end. A server serves once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(keepAccepting(ln, s.log)) }()
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("serve %s: %w", ln.Addr(), err), s.http.Close())
	case <-ctx.Done():
	}
	graceful, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.grace)
	defer cancel()
	err := s.http.Shutdown(graceful)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests were cut off at shutdown", "grace", s.grace)
		err = s.http.Close()
	}
	if e := <-failed; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	if err != nil {
		return fmt.Errorf("shut down %s: %w", ln.Addr(), err)
	}
	return nil
}

// serverMeter adds the name of the server.
type serverMeter struct {
	name string
	Meter
}

// Served implements Meter.
func (m serverMeter) Served(s Served) {
	s.Server = m.name
	m.Meter.Served(s)
}

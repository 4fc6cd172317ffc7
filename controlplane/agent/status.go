package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/meshgate/meshgate/controlplane/adminlink"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// Reasons why a proxy is not ready.
const (
	statusStarting     = "starting"
	statusDraining     = "draining"
	statusUnconfigured = "no configuration"
	statusAway         = "envoy away"
	// statusRefused precedes the names of listeners.
	statusRefused = "envoy refused "
)

// statusUnchecked is the message of a proxy that is ready but can decide no token.
const statusUnchecked = health.Ready + ", but token checks have stopped"

// askTime bounds the request whether Envoy serves. An Envoy that takes longer to answer
// counts as not serving.
const askTime = time.Second

// askTime bounds a question to a Redis or to an authorization service in the same way.
func (a *Agent) askTime() time.Duration { return cmp.Or(a.asks, askTime) }

// supervised is what the status needs from [Process].
type supervised interface {
	PID() int
	Leaving() bool
}

// status tells load balancers whether a proxy can serve requests.
type status struct {
	envoy supervised
	admin asker
	// leaving is the context that ends when the proxy has to end.
	leaving context.Context
	// enrolled and configured report the progress of the start.
	enrolled   atomic.Bool
	configured <-chan struct{}
	// refused returns the listeners that Envoy lacks because it refused them. It is set
	// before enrolled is.
	refused func() map[string]string
	// blind returns why no token can be decided, or "". It is nil if this is not checked.
	blind func(ctx context.Context) string

	asked singleflight.Group
	// conditions are problems with which the proxy may still be ready.
	conditions *health.Board
	// metrics may be nil.
	metrics http.Handler
}

// Missing returns why the proxy is not ready, as its status tells it, or "".
func (a *Agent) Missing(ctx context.Context) string {
	if s := a.state.Load(); s != nil {
		return s.missing(ctx)
	}
	return statusStarting
}

// tells returns the report for the control plane. It says what the status says on this
// machine.
func (a *Agent) tells(ctx context.Context) adminlink.Report {
	r := adminlink.Report{NotReady: a.Missing(ctx)}
	switch {
	case r.NotReady != statusAway:
	case a.Envoy.PID() == 0:
		r.Trouble = "its Envoy is not running; the agent starts it again and again"
	default:
		// The text names no process, so that proxies which hang for one reason show up as
		// one problem.
		r.Trouble = fmt.Sprintf("its Envoy does not answer its agent within %s: it hangs, or its host is short of CPU", askTime)
	}
	for _, c := range a.conditions.Conditions(ctx) {
		if c.State != health.OK {
			r.Conditions = append(r.Conditions, c)
		}
	}
	return r
}

// missing returns why the proxy is not ready, or "".
func (s *status) missing(ctx context.Context) string {
	switch {
	case s.leaving.Err() != nil || s.envoy.Leaving():
		return statusDraining
	case !s.enrolled.Load():
		return statusStarting
	}
	select {
	case <-s.configured:
	default:
		return statusUnconfigured
	}
	if s.envoy.PID() == 0 {
		return statusAway
	}
	// Concurrent requests share one request to Envoy.
	reason, _, _ := s.asked.Do("", func() (any, error) { return s.ask(context.WithoutCancel(ctx)), nil })
	if s.leaving.Err() != nil {
		return statusDraining // Envoy was asked before that
	}
	if names := slices.Sorted(maps.Keys(s.refused())); reason == "" && len(names) > 0 {
		return statusRefused + strings.Join(names, ", ")
	}
	if reason == "" && s.blind != nil {
		reason, _, _ = s.asked.Do("blind", func() (any, error) { return s.blind(context.WithoutCancel(ctx)), nil })
	}
	return reason.(string)
}

// ask asks Envoy itself, which answers 503 until it has loaded its configuration.
func (s *status) ask(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	_, err := s.admin.Do(ctx, http.MethodGet, "/ready")
	if _, answered := errors.AsType[*statusError](err); answered {
		return statusStarting
	}
	if err != nil {
		return statusAway
	}
	return ""
}

// handler serves /ready, /live and, if there are any, the metrics of the node, without
// authentication: the operator has to protect the port if necessary. The agent is live
// while it answers, even while it drains or Envoy is away. The agent restarts Envoy itself,
// so a supervisor that ended the agent would only cut off more requests.
func (s *status) handler() http.Handler {
	get := func(pattern, summary string, h http.HandlerFunc) httpkit.Endpoint {
		return httpkit.Endpoint{Method: http.MethodGet, Pattern: pattern, Auth: httpkit.Open, Summary: summary, Handler: h}
	}
	endpoints := []httpkit.Endpoint{
		get("/ready", "The proxy can be sent requests; what is the matter, if anything", s.serveReady),
		get("/live", "The agent lives", func(w http.ResponseWriter, _ *http.Request) { httpkit.WriteMessage(w, http.StatusOK, "live") }),
	}
	if s.metrics != nil {
		endpoints = append(endpoints, get("/metrics", "Metrics of the agent and of its Envoy", s.metrics.ServeHTTP))
	}
	return httpkit.NewRouter(endpoints, httpkit.RefuseMessage)
}

// Limits of the status server. A slower client is disconnected, whether it checks the
// status or reads metrics, so that the end of a proxy does not wait for it.
var statusLimits = httpkit.Limits{
	HeaderBytes: 4 << 10, BodyBytes: 1, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second,
	IdleTimeout: 30 * time.Second, Grace: time.Second, Anonymous: true,
}

// serveStatus serves the status until stop is called. Without an address it does nothing.
func (a *Agent) serveStatus(s *status) (stop func(), err error) {
	if a.StatusAddress == "" {
		return func() {}, nil
	}
	ln, err := net.Listen("tcp", a.StatusAddress)
	if err != nil {
		return nil, fmt.Errorf("status.port: %w", err)
	}
	if at, is := ln.Addr().(*net.TCPAddr); is {
		a.statusPort = at.AddrPort().Port()
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := httpkit.NewServer("status", s.handler(), a.Log, statusLimits).Serve(ctx, ln); err != nil {
			a.Log.Error("the status is not served any more", "error", err)
		}
	}()
	return func() {
		cancel()
		<-served
	}, nil
}

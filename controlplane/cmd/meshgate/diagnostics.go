package main

import (
	"context"
	"net/http"
	"net/http/pprof"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// readiness says whether the program can do its work.
type readiness struct {
	serving atomic.Bool
	// checks return what is missing, or "".
	checks []func() string
}

func (r *readiness) missing() string {
	if !r.serving.Load() {
		return "starting"
	}
	for _, c := range r.checks {
		if m := c(); m != "" {
			return m
		}
	}
	return ""
}

// diagnostics serves health, metrics and profiles.
func diagnostics(r *readiness, metrics *prometheus.Registry) http.Handler {
	get := func(pattern, summary string, h http.HandlerFunc) httpkit.Endpoint {
		return httpkit.Endpoint{Method: http.MethodGet, Pattern: pattern, Auth: httpkit.Open, Summary: summary, Handler: h}
	}
	endpoints := []httpkit.Endpoint{
		get("/healthy", "The process lives", func(w http.ResponseWriter, _ *http.Request) {
			httpkit.WriteMessage(w, http.StatusOK, "healthy")
		}),
		get("/ready", "The process can do its work", func(w http.ResponseWriter, _ *http.Request) {
			if m := r.missing(); m != "" {
				httpkit.WriteMessage(w, http.StatusServiceUnavailable, m)
				return
			}
			httpkit.WriteMessage(w, http.StatusOK, "ready")
		}),
		get("/metrics", "Prometheus metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}).ServeHTTP),
		get("/debug/pprof", "Profiles", pprof.Index),
		get("/debug/pprof/{profile}", "One profile", profile),
	}
	guard := httpkit.BrowserGuard{}
	return guard.Wrap(httpkit.NewRouter(endpoints, httpkit.RefuseMessage))
}

func profile(w http.ResponseWriter, r *http.Request) {
	switch name := r.PathValue("profile"); name {
	case "profile":
		pprof.Profile(w, r)
	case "trace":
		pprof.Trace(w, r)
	case "cmdline":
		pprof.Cmdline(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	default:
		pprof.Handler(name).ServeHTTP(w, r)
	}
}

// closers run in the reverse order in which they were added.
type closers []func(context.Context)

func (c *closers) add(f func(context.Context)) { *c = append(*c, f) }

func (c *closers) run(ctx context.Context) {
	for i := len(*c) - 1; i >= 0; i-- {
		(*c)[i](ctx)
	}
	*c = nil
}

package assembly

import (
	"context"
	"net/http"
	"net/http/pprof"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/telemetry"
)

// readiness says whether the program can do its work.
type readiness struct {
	serving atomic.Bool
	// checks return what is missing, or "" if nothing is.
	checks []func() string
	// conditions are the known kinds of trouble. A failed one counts as missing.
	conditions *health.Board
}

// state returns what is missing, or "" if nothing is, and all conditions.
func (r *readiness) state(ctx context.Context) (missing string, conditions []health.Condition) {
	conditions = r.conditions.Conditions(ctx)
	if !r.serving.Load() {
		return "starting", conditions
	}
	for _, c := range r.checks {
		if m := c(); m != "" {
			return m, conditions
		}
	}
	return health.Failure(conditions), conditions
}

// serve answers 503 only while the process cannot do its work. A process that can still do
// most of its work is ready in spite of troubles: taking it out of service would end what
// still works.
func (r *readiness) serve(w http.ResponseWriter, req *http.Request) {
	status, a := http.StatusOK, health.Answer{}
	if a.Message, a.Conditions = r.state(req.Context()); a.Message == "" {
		a.Message = health.Ready
	} else {
		status = http.StatusServiceUnavailable
	}
	_ = httpkit.WriteJSON(w, status, a) // a caller that is gone asks again
}

// profiling says whether profiles are offered, and to whom: to callers with the token or, if
// there is no token, to everybody who reaches the port.
type profiling struct {
	on    bool
	token string
}

// identify returns the caller of a request. A request without a valid token is anonymous and
// not refused: health and metrics are open to everybody who reaches the port.
func (p profiling) identify(r *http.Request) (model.Actor, error) {
	if p.token == "" {
		return model.Administrator(), nil
	}
	who, err := httpkit.Bearer(p.token, model.Administrator())(r)
	if err != nil {
		who = model.Anonymous() // the router refuses endpoints that need more
	}
	return who, nil
}

// diagnostics serves health, metrics and, where they are switched on, profiles.
func diagnostics(r *readiness, metrics *prometheus.Registry, p profiling) http.Handler {
	return httpkit.BrowserGuard{}.Wrap(httpkit.Identified(p.identify, httpkit.RefuseMessage,
		httpkit.NewRouter(diagnosticEndpoints(r, metrics, p.on), httpkit.RefuseMessage)))
}

func diagnosticEndpoints(r *readiness, metrics *prometheus.Registry, profiles bool) []httpkit.Endpoint {
	get := func(auth httpkit.Authorisation, pattern, summary string, h http.HandlerFunc) httpkit.Endpoint {
		return httpkit.Endpoint{Method: http.MethodGet, Pattern: pattern, Auth: auth, Summary: summary, Handler: h}
	}
	list := []httpkit.Endpoint{
		get(httpkit.Open, "/healthy", "The process lives", func(w http.ResponseWriter, _ *http.Request) {
			httpkit.WriteMessage(w, http.StatusOK, "healthy")
		}),
		get(httpkit.Open, "/ready", "The process can do its work; what is the matter, if anything", r.serve),
		get(httpkit.Open, "/metrics", "Prometheus metrics", promhttp.HandlerFor(telemetry.Gathered(metrics), promhttp.HandlerOpts{}).ServeHTTP),
	}
	if !profiles {
		return list
	}
	return append(list,
		get(httpkit.Administrator, "/debug/pprof", "Profiles", pprof.Index),
		get(httpkit.Administrator, "/debug/pprof/{profile}", "One profile", profile),
	)
}

// profile serves one profile. It does not offer the command line: reading a profile does not
// need it.
func profile(w http.ResponseWriter, r *http.Request) {
	switch name := r.PathValue("profile"); name {
	case "profile":
		pprof.Profile(w, r)
	case "trace":
		pprof.Trace(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	default:
		pprof.Handler(name).ServeHTTP(w, r)
	}
}

// closers are run in the reverse order of their addition.
type closers []func(context.Context)

func (c *closers) add(f func(context.Context)) { *c = append(*c, f) }

func (c *closers) run(ctx context.Context) {
	for i := len(*c) - 1; i >= 0; i-- {
		(*c)[i](ctx)
	}
	*c = nil
}

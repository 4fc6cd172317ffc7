package assembly

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/meshgate/meshgate/controlplane/authz"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/telemetry"
	"github.com/meshgate/meshgate/controlplane/version"
)

// authzLimits are those of the status of an agent.
var authzLimits = httpkit.Limits{
	HeaderBytes: 4 << 10, BodyBytes: 1, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second,
	IdleTimeout: 30 * time.Second, Grace: time.Second, Anonymous: true,
}

// ServeAuthz serves an open authorization service and, if there is a port for it, its status
// and its metrics, until ctx ends. Who reaches that port may read both.
func ServeAuthz(ctx context.Context, c *config.Config, s *authz.Service, log *slog.Logger) error {
	if c.Status.Port == 0 {
		return s.Serve(ctx)
	}
	ln, err := listen("status.port", c.Status.Listen, c.Status.Port)
	if err != nil {
		return err
	}
	return withStatus(ctx, ln, s, log)
}

func withStatus(ctx context.Context, ln net.Listener, s *authz.Service, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- httpkit.NewServer("status", authzStatus(s), log, authzLimits).Serve(ctx, ln)
	}()
	err := s.Serve(ctx)
	cancel()
	if failed := <-served; err == nil {
		err = failed
	}
	return err
}

// authzStatus answers /ready, /live and /metrics, as the status of an agent does. A service
// that says there that it is ready answers Envoy.
func authzStatus(s *authz.Service) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(s, telemetry.BuildInfo("authz", version.Program),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	get := func(pattern, summary string, h http.HandlerFunc) httpkit.Endpoint {
		return httpkit.Endpoint{Method: http.MethodGet, Pattern: pattern, Auth: httpkit.Open, Summary: summary, Handler: h}
	}
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { httpkit.WriteMessage(w, http.StatusOK, text) }
	}
	return httpkit.NewRouter([]httpkit.Endpoint{
		get("/ready", "The service decides requests", func(w http.ResponseWriter, _ *http.Request) {
			if err := s.Ready(); err != nil {
				httpkit.WriteMessage(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
				return
			}
			httpkit.WriteMessage(w, http.StatusOK, "ready")
		}),
		get("/live", "The process lives", says("live")),
		get("/metrics", "Metrics of the service", promhttp.HandlerFor(telemetry.Gathered(r), promhttp.HandlerOpts{}).ServeHTTP),
	}, httpkit.RefuseMessage)
}

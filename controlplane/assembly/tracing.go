package assembly

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/telemetry"
	"github.com/meshgate/meshgate/controlplane/version"
	plan "github.com/meshgate/meshgate/xds/plan/edge"
)

// gatewayTracing returns where gateways send their spans.
func gatewayTracing(c *config.Config) (plan.Tracing, error) {
	to, err := c.Tracing.Collector()
	if err != nil {
		return plan.Tracing{}, fmt.Errorf("tracing.otlp.endpoint: %w", err)
	}
	return plan.Tracing{Collector: plan.Endpoint{Host: to.Host, Port: to.Port}, TLS: to.TLS, Path: to.Path, Sample: 100 * c.Tracing.Sample}, nil
}

// openTraces opens the export of spans that the environment configures.
func (cp *ControlPlane) openTraces(ctx context.Context) (err error) {
	if cp.traces, err = telemetry.OpenTraces(ctx, version.Program, cp.Log); err != nil || cp.traces == nil {
		return err
	}
	cp.Log.Info("spans are exported, as the environment says")
	cp.closers.add(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, spansTime)
		defer cancel()
		if err := cp.traces.Close(ctx); err != nil {
			cp.Log.Warn("the last spans could not be exported", "error", err)
		}
	})
	return nil
}

// spansTime bounds the export of the last spans, so that the end of a process does not wait
// for a collector that is away.
const spansTime = 2 * time.Second

// traced adds spans to the requests of a server, except the diagnostics server.
func (cp *ControlPlane) traced(server string, h http.Handler) http.Handler {
	if server == serverDiagnostics {
		return h
	}
	return cp.traces.Wrap(server, h)
}

// serverDiagnostics is the name of the server of health and metrics.
const serverDiagnostics = "diagnostics"

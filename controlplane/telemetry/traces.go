package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// Traces makes a span for each request to a server, as part of the caller's trace (W3C Trace
// Context). A nil Traces makes none.
//
// Apart from the ids of its trace, a span contains nothing that a client has chosen: no
// path, because keys of resources may be tokens, no query, no header and no address.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	context  propagation.TraceContext
}

// OpenTraces reads the OTEL_ variables of the environment, as OpenTelemetry specifies them.
// Traces are off, and the result is nil, unless one of them names an exporter or an
// endpoint.
func OpenTraces(ctx context.Context, version string, log *slog.Logger) (*Traces, error) {
	if !tracesWanted(os.Getenv) {
		return nil, nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "meshgate"), attribute.String("service.version", version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("spans could not be exported", "error", err) }))
	return newTraces(sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))), nil
}

func newTraces(p *sdktrace.TracerProvider) *Traces {
	return &Traces{provider: p, tracer: p.Tracer("github.com/meshgate/meshgate")}
}

// tracesWanted reports whether the environment asks for traces.
func tracesWanted(env func(string) string) bool {
	exporter := env("OTEL_TRACES_EXPORTER")
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") || exporter == "none" {
		return false
	}
	return exporter != "" || env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Wrap returns a handler that makes spans. It must run inside of [httpkit.Observe].
func (t *Traces) Wrap(server string, next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" { // a link that lives for days gets no span
			next.ServeHTTP(w, r)
			return
		}
		ctx := t.context.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.tracer.Start(ctx, server, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		entry := httpkit.EntryOf(ctx)
		if span.SpanContext().IsSampled() {
			entry.Trace = span.SpanContext().TraceID().String()
		}
		status := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		finished := false
		defer func() {
			if !finished { // a panic, which the server answers
				status.status = http.StatusInternalServerError
			}
			describe(span, server, r.Method, entry.Pattern, status.status)
		}()
		next.ServeHTTP(status, r.WithContext(ctx))
		finished = true
	})
}

// describe sets the name and attributes of a span according to OpenTelemetry's conventions
// for HTTP servers.
func describe(span trace.Span, server, method, pattern string, status int) {
	method = httpkit.BoundedMethod(method)
	span.SetName(strings.TrimSpace(method + " " + pattern))
	span.SetAttributes(
		attribute.String("http.request.method", method), attribute.String("http.route", pattern),
		attribute.Int("http.response.status_code", status), attribute.String("meshgate.server", server),
	)
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
}

// Close sends the remaining spans until ctx ends.
func (t *Traces) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// statusWriter records the status of the answer.
type statusWriter struct {
	http.ResponseWriter
	status int
	wrote  bool
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if !w.wrote && status >= http.StatusOK {
		w.wrote, w.status = true, status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(b []byte) (int, error) {
	w.wrote = true
	return w.ResponseWriter.Write(b)
}

// Unwrap serves http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

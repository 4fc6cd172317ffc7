package telemetry

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// TestSpans: each request has one span, in the trace of its caller, with nothing that the
// caller chose.
func TestSpans(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	traces := newTraces(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	defer func() { _ = traces.Close(t.Context()) }()
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	router := httpkit.NewRouter([]httpkit.Endpoint{
		{Method: http.MethodGet, Pattern: "/tokens/{token}", Auth: httpkit.Open, Handler: answer(204)},
		{Method: http.MethodGet, Pattern: "/fails", Auth: httpkit.Open, Handler: answer(503)},
		{Method: http.MethodGet, Pattern: "/panics", Auth: httpkit.Open, Handler: func(http.ResponseWriter, *http.Request) { panic("x") }},
	}, httpkit.RefuseMessage)
	var log strings.Builder
	h := httpkit.Observe(traces.Wrap("admin", router), slog.New(slog.NewTextHandler(&log, nil)))
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, request := range []struct{ method, path, upgrade string }{
		{"GET", "/tokens/secret?q=secret", ""}, {"BREW", "/tokens/secret", ""}, {"GET", "/secret", ""},
		{"GET", "/fails", ""}, {"GET", "/panics", ""}, {"GET", "/tokens/secret", "link"},
	} {
		r := httptest.NewRequest(request.method, request.path, nil)
		r.Header.Set("Traceparent", parent)
		r.Header.Set("Baggage", "secret=secret")
		if request.upgrade != "" {
			r.Header.Set("Upgrade", request.upgrade)
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	var got []string
	for _, s := range recorder.Ended() {
		line := s.Name() + " " + s.Status().Code.String()
		for _, a := range s.Attributes() {
			line += " " + string(a.Key) + "=" + a.Value.String()
		}
		if s.Parent().SpanID().String() != "b7ad6b7169203331" || s.SpanContext().TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("%s is not in the trace of its caller", line)
		}
		got = append(got, line)
	}
	attributes := func(method, route, status string) string {
		return " http.request.method=" + method + " http.route=" + route + " http.response.status_code=" + status + " meshgate.server=admin"
	}
	want := []string{
		"GET /tokens/{token} Unset" + attributes("GET", "/tokens/{token}", "204"),
		"_OTHER /tokens/{token} Unset" + attributes("_OTHER", "/tokens/{token}", "405"),
		"GET Unset" + attributes("GET", "", "404"),
		"GET /fails Error" + attributes("GET", "/fails", "503"),
		"GET /panics Error" + attributes("GET", "/panics", "500"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(log.String(), "trace_id=0af7651916cd43dd8448eb211c80319c"); n != len(want) {
		t.Errorf("%d lines of the log name the trace", n)
	}
}

// TestTracesAreOff: there are no spans unless the environment asks for them.
func TestTracesAreOff(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "OTEL_SERVICE_NAME=x": false, "OTEL_TRACES_EXPORTER=none": false, "OTEL_TRACES_EXPORTER=otlp": true,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c": true, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c": true,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_SDK_DISABLED=TRUE":    false,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_TRACES_EXPORTER=none": false,
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://c":                   false,
	} {
		env := map[string]string{}
		for pair := range strings.FieldsSeq(text) {
			key, value, _ := strings.Cut(pair, "=")
			env[key] = value
		}
		if got := tracesWanted(func(key string) string { return env[key] }); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
	var off *Traces
	w := httptest.NewRecorder()
	off.Wrap("x", http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if err := off.Close(t.Context()); w.Code != http.StatusNotFound || err != nil {
		t.Errorf("what is off answered %d, %v", w.Code, err)
	}
}

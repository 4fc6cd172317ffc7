package sidecar_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/e2e/ports"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/policy/traffictrace"
)

// reported is a span as a collector gets it.
type reported struct{ trace, id, parent, kind string }

// pairOf returns the two spans of some trace, the client's first, from what a collector gets.
func pairOf(t *testing.T, got <-chan []reported) (client, server reported) {
	t.Helper()
	traces, late := map[string][]reported{}, time.After(patience)
	for {
		select {
		case spans := <-got:
			for _, s := range spans {
				traces[s.trace] = append(traces[s.trace], s)
			}
		case <-late:
			t.Fatalf("no trace of two spans: %v", traces)
		}
		for _, spans := range traces {
			if len(spans) == 2 && spans[0].kind == "CLIENT" {
				return spans[0], spans[1]
			} else if len(spans) == 2 {
				return spans[1], spans[0]
			}
		}
	}
}

// sent has a real Envoy, which calls itself, send spans to a backend at a collector, and returns
// what the collector reads of what is sent to a path.
func sent(t *testing.T, backend func(collector *url.URL) mesh.TracingBackend, path string, read func([]byte) ([]reported, error)) <-chan []reported {
	t.Helper()
	got := make(chan []reported, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.URL.Path != path || err != nil {
			return // such as the telemetry of a tracer
		}
		spans, err := read(body)
		if err != nil {
			t.Error(err)
		}
		got <- spans
	}))
	t.Cleanup(collector.Close)
	workload := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(workload.Close)
	free, err := ports.Free(2)
	if err != nil {
		t.Fatal(err)
	}
	d := dataplane("127.0.0.1", "web", "http", "web")
	port, err := strconv.Atoi(must(url.Parse(workload.URL)).Port())
	if err != nil {
		t.Fatal(err)
	}
	d.Networking.Inbound[0].Port, d.Networking.Inbound[0].ServicePort = uint32(free[0]), uint32(port)
	d.Networking.Outbound[0].Port = uint32(free[1])
	w := newWorld(t)
	w.put(mesh.Dataplanes, meshName, "web-1", d)
	b := backend(must(url.Parse(collector.URL)))
	b.Name = "collector"
	w.put(mesh.Meshes, "", meshName, &mesh.Mesh{Tracing: &mesh.Tracing{DefaultBackend: b.Name, Backends: []mesh.TracingBackend{b}}})
	w.put(traffictrace.Kind, meshName, "all", traced("*", ""))
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, must(protojson.Marshal(static(t, w.joined("web-1")))), 0o600); err != nil {
		t.Fatal(err)
	}
	plantest.Run(t, file)
	for range 10 { // a tracer sends at five spans
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", free[1])) //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Fatal(r.Status)
		}
	}
	return got
}

// TestSpansOfZipkin: the two sides of a request share a span, or have one below the other.
func TestSpansOfZipkin(t *testing.T) {
	for _, shared := range []bool{true, false} {
		c, s := pairOf(t, sent(t, func(u *url.URL) mesh.TracingBackend {
			return mesh.TracingBackend{Type: mesh.TracingZipkin, Conf: map[string]any{"url": u.String() + "/api/v2/spans", "sharedSpanContext": shared}}
		}, "/api/v2/spans", func(body []byte) (out []reported, err error) {
			var spans []struct{ TraceID, ID, ParentID, Kind string }
			err = json.Unmarshal(body, &spans)
			for _, s := range spans {
				out = append(out, reported{s.TraceID, s.ID, s.ParentID, s.Kind})
			}
			return out, err
		}))
		if shared && (c.id != s.id || s.parent != "") || !shared && s.parent != c.id || c.parent != "" || s.kind != "SERVER" {
			t.Errorf("shared %t: %v and %v", shared, c, s)
		}
	}
}

// TestSpansOfOTLP: the server's span is below the client's.
func TestSpansOfOTLP(t *testing.T) {
	c, s := pairOf(t, sent(t, func(u *url.URL) mesh.TracingBackend {
		return mesh.TracingBackend{Type: mesh.TracingOpenTelemetry, Conf: map[string]any{"endpoint": u.String()}}
	}, "/v1/traces", func(body []byte) (out []reported, err error) {
		m := new(collectorv1.ExportTraceServiceRequest)
		err = proto.Unmarshal(body, m)
		for _, of := range m.GetResourceSpans() {
			for _, scope := range of.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					out = append(out, reported{hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetSpanId()), hex.EncodeToString(s.GetParentSpanId()), s.GetKind().String()[len("SPAN_KIND_"):]})
				}
			}
		}
		return out, err
	}))
	if s.parent != c.id || c.parent != "" || s.kind != "SERVER" {
		t.Errorf("%v and %v", c, s)
	}
}

// TestSpansOfDatadog: services say the direction, and whom an outbound calls.
func TestSpansOfDatadog(t *testing.T) {
	names := []string{"web_OUTBOUND_web", "web_INBOUND"}
	got, seen, late := sent(t, func(u *url.URL) mesh.TracingBackend {
		return mesh.TracingBackend{Type: mesh.TracingDatadog, Conf: map[string]any{"address": u.Hostname(), "port": u.Port(), "splitService": true}}
	}, "/v0.4/traces", func(body []byte) (out []reported, err error) {
		for _, name := range names {
			if bytes.Contains(body, append([]byte{0xdb, 0, 0, 0, byte(len(name))}, name...)) { // a long text in msgpack
				out = append(out, reported{kind: name})
			}
		}
		return out, nil
	}), map[string]bool{}, time.After(patience)
	for len(seen) < len(names) {
		select {
		case spans := <-got:
			for _, s := range spans {
				seen[s.kind] = true
			}
		case <-late:
			t.Fatalf("services are %v", seen)
		}
	}
}

package mesh_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/e2e/framework"
)

// span is what these specs read of one, whatever the protocol.
type span struct {
	service, trace, id, parent, kind string
	// shared says that two proxies have the one span (Zipkin).
	shared bool
	tags   map[string]string
}

// receiver collects spans in every protocol that proxies can send them in.
type receiver struct {
	*httptest.Server
	// grpc is the address for OTLP over gRPC.
	grpc string
	// arrived counts reports, before they are answered. They are answered once release is
	// closed; nil answers at once.
	arrived chan struct{}
	release chan struct{}

	mu    sync.Mutex
	spans []span
	// wrong is why reports could not be read.
	wrong []error
}

func startReceiver() *receiver {
	r := &receiver{arrived: make(chan struct{}, 1000)}
	r.Server = httptest.NewServer(r)
	DeferCleanup(func() { framework.EndServer(r.Server) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, &otlp{receiver: r})
	var work sync.WaitGroup
	work.Go(func() { _ = server.Serve(ln) }) // until it is stopped
	DeferCleanup(func() {
		server.Stop()
		work.Wait()
	})
	r.grpc = ln.Addr().String()
	return r
}

// take notes the spans of one report.
func (r *receiver) take(spans []span, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = append(r.spans, spans...)
	if err != nil {
		r.wrong = append(r.wrong, err)
	}
}

// of returns the spans of a trace, the client's before the server's.
func (r *receiver) of(trace string) (out []span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ExpectWithOffset(1, r.wrong).To(BeEmpty())
	for _, s := range r.spans {
		if s.trace == trace {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b span) int {
		if a.kind < b.kind {
			return -1
		}
		return 1
	})
	return out
}

// requests returns the ids of the requests that spans are about.
func (r *receiver) requests() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		out = append(out, s.tags["guid:x-request-id"])
	}
	return out
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	read := map[string]func([]byte) ([]span, error){
		"/api/v2/spans application/json":       zipkinJSON,
		"/api/v2/spans application/x-protobuf": zipkinProto,
		"/v0.4/traces application/msgpack":     datadog,
		"/v1/traces application/x-protobuf":    otlpHTTP,
	}[req.URL.Path+" "+req.Header.Get("Content-Type")]
	if err != nil || read == nil {
		w.WriteHeader(http.StatusNotFound) // such as telemetry of the tracers themselves
		return
	}
	r.take(read(body))
	r.arrived <- struct{}{}
	if r.release != nil {
		select {
		case <-r.release:
		case <-req.Context().Done():
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}")
}

func zipkinJSON(body []byte) (out []span, err error) {
	var sent []struct {
		TraceID, ID, ParentID, Kind string
		Shared                      bool
		LocalEndpoint               struct{ ServiceName string }
		Tags                        map[string]string
	}
	err = json.Unmarshal(body, &sent)
	for _, s := range sent {
		out = append(out, span{s.LocalEndpoint.ServiceName, s.TraceID, s.ID, s.ParentID, s.Kind, s.Shared, s.Tags})
	}
	return out, err
}

// fields calls visit with each field of an encoded message.
func fields(body []byte, visit func(n protowire.Number, value []byte, number uint64)) error {
	for len(body) > 0 {
		n, kind, size := protowire.ConsumeTag(body)
		if size < 0 {
			return protowire.ParseError(size)
		}
		body = body[size:]
		whole := protowire.ConsumeFieldValue(n, kind, body)
		if whole < 0 {
			return protowire.ParseError(whole)
		}
		switch kind {
		case protowire.BytesType:
			value, _ := protowire.ConsumeBytes(body)
			visit(n, value, 0)
		case protowire.VarintType:
			number, _ := protowire.ConsumeVarint(body)
			visit(n, nil, number)
		}
		body = body[whole:]
	}
	return nil
}

// zipkinProto reads zipkin.proto3.ListOfSpans.
func zipkinProto(body []byte) (out []span, err error) {
	err = fields(body, func(_ protowire.Number, one []byte, _ uint64) {
		s := span{tags: map[string]string{}}
		err = errors.Join(err, fields(one, func(n protowire.Number, value []byte, number uint64) {
			switch n {
			case 1:
				s.trace = hex.EncodeToString(value)
			case 2:
				s.parent = hex.EncodeToString(value)
			case 3:
				s.id = hex.EncodeToString(value)
			case 4:
				s.kind = map[uint64]string{1: "CLIENT", 2: "SERVER"}[number]
			case 8:
				err = errors.Join(err, fields(value, func(n protowire.Number, value []byte, _ uint64) {
					if n == 1 {
						s.service = string(value)
					}
				}))
			case 11:
				err = errors.Join(err, tag(s.tags, value))
			case 13:
				s.shared = number != 0
			}
		}))
		out = append(out, s)
	})
	return out, err
}

// tag reads an entry of zipkin.proto3.Span.tags.
func tag(into map[string]string, entry []byte) error {
	var text [2]string
	err := fields(entry, func(n protowire.Number, value []byte, _ uint64) {
		if n == 1 || n == 2 {
			text[n-1] = string(value)
		}
	})
	into[text[0]] = text[1]
	return err
}

// otlp is the service of a receiver that takes OTLP over gRPC.
type otlp struct {
	collectorv1.UnimplementedTraceServiceServer
	*receiver
}

// Export implements collectorv1.TraceServiceServer.
func (o *otlp) Export(_ context.Context, m *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	o.take(otlpSpans(m), nil)
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func otlpHTTP(body []byte) ([]span, error) {
	m := new(collectorv1.ExportTraceServiceRequest)
	err := proto.Unmarshal(body, m)
	return otlpSpans(m), err
}

func otlpSpans(m *collectorv1.ExportTraceServiceRequest) (out []span) {
	texts := func(attributes []*commonv1.KeyValue) map[string]string {
		tags := map[string]string{}
		for _, a := range attributes {
			tags[a.GetKey()] = a.GetValue().GetStringValue()
		}
		return tags
	}
	for _, of := range m.GetResourceSpans() {
		service := texts(of.GetResource().GetAttributes())["service.name"]
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				out = append(out, span{
					service: service, trace: hex.EncodeToString(s.GetTraceId()), id: hex.EncodeToString(s.GetSpanId()),
					parent: hex.EncodeToString(s.GetParentSpanId()), kind: s.GetKind().String(), tags: texts(s.GetAttributes()),
				})
			}
		}
	}
	return out
}

// datadog reads lists of traces, which are lists of spans. Ids are shown in decimal, as headers
// have them.
func datadog(body []byte) (out []span, err error) {
	m := &msgpack{body}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("msgpack: %v", r)
		}
	}()
	traces, _ := m.value().([]any)
	for _, trace := range traces {
		list, _ := trace.([]any)
		for _, one := range list {
			s, _ := one.(map[string]any)
			meta, _ := s["meta"].(map[string]any)
			tags := map[string]string{}
			for k, v := range meta {
				tags[k] = fmt.Sprint(v)
			}
			out = append(out, span{
				service: fmt.Sprint(s["service"]), trace: fmt.Sprint(s["trace_id"]), id: fmt.Sprint(s["span_id"]), parent: fmt.Sprint(s["parent_id"]),
				kind: tags["span.kind"], tags: tags,
			})
		}
	}
	return out, nil
}

// msgpack reads what a tracer writes: maps and lists of texts and numbers.
type msgpack struct{ rest []byte }

func (m *msgpack) take(n int) (b []byte) {
	b, m.rest = m.rest[:n], m.rest[n:]
	return b
}

// number reads an unsigned integer of 1, 2, 4 or 8 bytes.
func (m *msgpack) number(size int) uint64 {
	var wide [8]byte
	copy(wide[8-size:], m.take(size))
	return binary.BigEndian.Uint64(wide[:])
}

func (m *msgpack) value() any {
	switch head := m.take(1)[0]; {
	case head < 0x80:
		return uint64(head)
	case head < 0x90:
		return m.mapping(int(head & 0x0f))
	case head < 0xa0:
		return m.list(int(head & 0x0f))
	case head < 0xc0:
		return string(m.take(int(head & 0x1f)))
	case head >= 0xe0:
		return int64(int8(head))
	case head == 0xc0, head == 0xc2, head == 0xc3: // nil and booleans
		return nil
	case head >= 0xc4 && head <= 0xc6: // bytes
		return m.take(int(m.number(1 << (head - 0xc4))))
	case head == 0xca:
		return math.Float32frombits(uint32(m.number(4)))
	case head == 0xcb:
		return math.Float64frombits(m.number(8))
	case head >= 0xcc && head <= 0xcf: // unsigned
		return m.number(1 << (head - 0xcc))
	case head >= 0xd0 && head <= 0xd3: // signed
		size := 1 << (head - 0xd0)
		return int64(m.number(size)<<(64-8*size)) >> (64 - 8*size)
	case head >= 0xd9 && head <= 0xdb:
		return string(m.take(int(m.number(1 << (head - 0xd9)))))
	case head == 0xdc || head == 0xdd:
		return m.list(int(m.number(2 << (head - 0xdc))))
	case head == 0xde || head == 0xdf:
		return m.mapping(int(m.number(2 << (head - 0xde))))
	default:
		panic(fmt.Sprintf("no value begins with %#x", head))
	}
}

func (m *msgpack) list(n int) (out []any) {
	for range n {
		out = append(out, m.value())
	}
	return out
}

func (m *msgpack) mapping(n int) map[string]any {
	out := map[string]any{}
	for range n {
		key := fmt.Sprint(m.value())
		out[key] = m.value()
	}
	return out
}

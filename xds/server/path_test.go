package server_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/xds/server"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestPathWithoutSlash sends raw HTTP/2 requests whose :path names no method. They must not
// reach any code behind the interceptors (CVE-2026-33186).
func TestPathWithoutSlash(t *testing.T) {
	const method = "envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	r := setup(t, func(c *server.Config) { c.Auth = auth{} })
	for _, path := range []string{method, "//" + method, "./" + method, "x/../" + method, "*", "", "/" + strings.ToUpper(method)} {
		conn, err := r.lis.DialContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
			t.Fatal(err)
		}
		f := http2.NewFramer(conn, conn)
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		var block bytes.Buffer
		e := hpack.NewEncoder(&block)
		for _, h := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "cp"},
			{"content-type", "application/grpc"}, {"te", "trailers"}, {"authorization", "Bearer good"},
		} {
			if err := e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.WriteSettings(); err != nil {
			t.Fatal(err)
		}
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
		if got := verdictOf(t, f); got != "12" && got != "reset" {
			t.Errorf("%q: grpc-status %s", path, got)
		}
		_ = conn.Close()
	}
}

// verdictOf returns the gRPC status of the first stream, or "reset".
func verdictOf(t *testing.T, f *http2.Framer) string {
	t.Helper()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return "reset"
		}
		switch frame := frame.(type) {
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return "reset"
		case *http2.MetaHeadersFrame:
			for _, h := range frame.Fields {
				if h.Name == "grpc-status" {
					return h.Value
				}
			}
			return "open"
		}
	}
}

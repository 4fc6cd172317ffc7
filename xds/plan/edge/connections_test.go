package edge

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/xds/bootstrap"
	"github.com/meshgate/meshgate/xds/plan/plantest"
)

// TestConnectionsAreBounded: with the overload manager of our bootstrap, a gateway closes
// connections beyond its limit and continues to serve the others. It accepts new ones when
// others have ended.
func TestConnectionsAreBounded(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Routes, id(2, 0), 1, routeSpec("", "/a"))
	params := Params{Address: "127.0.0.1", HTTPPort: freePort(t)}
	b := bare(t)
	add(t, b, NewPlanner(params).Plan(w.state()).Set)
	b.OverloadManager = overload(t, bootstrap.Config{MaxConnections: 3})
	plantest.Run(t, write(t, b))

	// served reports whether a new connection is answered. The connection stays open.
	var conns []net.Conn
	served := func() bool {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", params.HTTPPort), patience)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
		conns = append(conns, conn)
		return answered(t, conn)
	}
	for i := range 3 {
		if !served() {
			t.Errorf("connection %d is not served", i+1)
		}
	}
	if served() {
		t.Error("a connection beyond the bound is served")
	}
	if !answered(t, conns[0]) {
		t.Error("a connection of before has ended")
	}
	if err := conns[1].Close(); err != nil {
		t.Fatal(err)
	}
	// Envoy notices the end with a delay; each attempt waits for its answer.
	for deadline := time.Now().Add(patience); !served(); {
		if time.Now().After(deadline) {
			t.Fatal("no connection is taken again")
		}
	}
}

// overload returns the overload manager of our bootstrap.
func overload(t *testing.T, limits bootstrap.Config) *overloadv3.OverloadManager {
	t.Helper()
	limits.NodeID, limits.Relay, limits.AdminSocket = "cp/default/g", "/relay", "/admin"
	text, err := bootstrap.Render(limits)
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var ours bootstrapv3.Bootstrap
	if err := protojson.Unmarshal(asJSON, &ours); err != nil {
		t.Fatal(err)
	}
	return ours.OverloadManager
}

// answered sends a request on a connection. It returns false if the connection ends without an
// answer.
func answered(t *testing.T, conn net.Conn) bool {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return false
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil && r.StatusCode == http.StatusServiceUnavailable // a route without a service
}

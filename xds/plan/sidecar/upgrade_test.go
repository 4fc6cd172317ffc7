package sidecar_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/e2e/ports"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestUpgradesNominateNothing: a caller cannot make the workload, or the proxy of a service,
// drop headers that a proxy has set. A real Envoy is asked.
func TestUpgradesNominateNothing(t *testing.T) {
	head := inbound(t, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, X-Forwarded-Client-Cert, X-Forwarded-Proto\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	if lower := strings.ToLower(head); !strings.Contains(lower, "\r\nconnection: upgrade\r\n") || strings.Count(lower, "\r\nconnection:") != 1 {
		t.Errorf("the workload reads\n%s", head)
	}
	w := newWorld(t)
	pair("http")(w)
	w.joined(both...)
	for _, name := range both {
		for _, r := range w.planner.Set(name).All(resource.Route) {
			if body := string(r.Body); !strings.Contains(body, "connection") || !strings.Contains(body, "Upgrade") {
				t.Errorf("%s of %s passes Connection on", r.Name, name)
			}
		}
	}
}

// inbound sends a request through the inbound of a real Envoy, without mutual TLS. It returns
// what the workload reads.
func inbound(t *testing.T, request string) string {
	t.Helper()
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	port, heads := plantest.Listen(t)
	w := newWorld(t)
	d := dataplane("127.0.0.1", "backend", "http")
	d.Networking.Inbound[0].Port, d.Networking.Inbound[0].ServicePort = uint32(free[0]), port
	w.put(mesh.Dataplanes, meshName, "backend-1", d)
	text, err := protojson.Marshal(static(t, w.joined("backend-1")))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	plantest.Run(t, file)
	return plantest.Send(t, d.Networking.Inbound[0].Port, request, heads)
}

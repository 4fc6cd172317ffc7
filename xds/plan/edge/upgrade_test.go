package edge

import (
	"fmt"
	"net/textproto"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/xds/plan/plantest"
)

// nominating is an upgrade request that asks the next server to drop headers.
const nominating = "GET %s HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, X-Anonymous-Consumer, X-Authenticated-Scope, X-Real-IP\r\nConnection: X-Forwarded-For\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

// connections returns the values of Connection in a head.
func connections(head string) (values []string) {
	for line := range strings.SplitSeq(head, "\r\n") {
		if name, value, _ := strings.Cut(line, ":"); textproto.CanonicalMIMEHeaderKey(name) == "Connection" {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}

// TestUpgradesNominateNothing: the next server drops the headers that a client names in
// Connection. It would then not learn that the caller is anonymous. A real Envoy is asked, on
// a route where the filter sets the header and on one without plugins.
func TestUpgradesNominateNothing(t *testing.T) {
	port, heads := plantest.Listen(t)
	w := newWorld(t)
	s := serviceSpec("")
	s.Port = int(port)
	w.put(gateway.Services, id(1, 0), 1, s)
	w.put(gateway.Routes, id(2, 0), 1, routeSpec(id(1, 0), "/open"))
	w.put(gateway.Routes, id(2, 1), 1, routeSpec(id(1, 0), "/anonymous"))
	w.put(gateway.Consumers, id(4, 0), 1, &gateway.Consumer{Username: "nobody"})
	w.put(gateway.Plugins, id(3, 0), 1, pluginSpec(t, id(2, 1), "", func(c *gateway.OAuth2Config) { c.Anonymous = "nobody" }))
	params := Params{Address: "127.0.0.1", HTTPPort: freePort(t)}
	b := bare(t)
	add(t, b, NewPlanner(params).Plan(w.state()).Set)
	plantest.Run(t, write(t, b))
	for path, told := range map[string]string{"/open": "x-real-ip: 127.0.0.1", "/anonymous": "x-anonymous-consumer: true"} {
		head := plantest.Send(t, params.HTTPPort, fmt.Sprintf(nominating, path), heads)
		if got := connections(head); len(got) != 1 || got[0] != "Upgrade" {
			t.Errorf("%s: Connection is %q", path, got)
		}
		if !strings.Contains(strings.ToLower(head), told) || !strings.Contains(strings.ToLower(head), "upgrade: websocket") {
			t.Errorf("%s: the upstream reads\n%s", path, head)
		}
	}
	// Without an upgrade the upstream gets no Connection header.
	plain := "GET /open HTTP/1.1\r\nHost: a\r\nConnection: X-Anonymous-Consumer\r\n\r\n"
	if head := plantest.Send(t, params.HTTPPort, plain, heads); connections(head) != nil {
		t.Errorf("without an upgrade Connection is %q", connections(head))
	}
}

// TestStrangersForwardNothing: claims of an untrusted client about the origin of its request
// reach the upstream in no header. A real Envoy is asked.
func TestStrangersForwardNothing(t *testing.T) {
	port, heads := plantest.Listen(t)
	w := newWorld(t)
	s := serviceSpec("")
	s.Port = int(port)
	w.put(gateway.Services, id(1, 0), 1, s)
	w.put(gateway.Routes, id(2, 0), 1, routeSpec(id(1, 0), "/open"))
	params := Params{Address: "127.0.0.1", HTTPPort: freePort(t)}
	b := bare(t)
	add(t, b, NewPlanner(params).Plan(w.state()).Set)
	plantest.Run(t, write(t, b))
	request := ""
	for _, name := range []string{
		"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto", "X-Forwarded-Path", "X-Forwarded-Prefix", "X-Real-IP",
		"X-Envoy-External-Address", "x_forwarded_for", "x_real_ip",
	} {
		request += name + ": forged\r\n"
	}
	for _, host := range []string{"a", ""} {
		head := plantest.Send(t, params.HTTPPort, "GET /open HTTP/1.1\r\nHost: "+host+"\r\n"+request+"\r\n", heads)
		if strings.Contains(head, "forged") {
			t.Errorf("the upstream of %q reads\n%s", host, head)
		}
	}
}

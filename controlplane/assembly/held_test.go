package assembly

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/adminlink"
	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/filter/contract"
)

// held holds the connections of a node beside its stream: the link of its agent and the link
// of its filter.
type held struct {
	url   string
	conns map[string]net.Conn
}

// hold opens both links with a token.
func (r *running) hold(node, token string) *held {
	r.t.Helper()
	s := httptest.NewServer(r.dataPlane())
	r.t.Cleanup(s.Close)
	h := &held{url: s.URL, conns: map[string]net.Conn{}}
	for _, link := range []struct{ path, protocol, header string }{
		{adminlink.Path, adminlink.Protocol, adminlink.NodeHeader}, {contract.LinkPath, contract.LinkProtocol, contract.NodeHeader},
	} {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(conditionPatience))
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %s\r\nAuthorization: Bearer %s\r\n%s: %s\r\n\r\n",
			link.path, link.protocol, token, link.header, node)
		in := bufio.NewReader(conn)
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			r.t.Fatalf("%s: %v %v", link.path, res, err)
		}
		h.conns[link.path] = conn
		if link.path == contract.LinkPath {
			r.greet(conn, in)
		}
	}
	return h
}

// greet sends the hello of a filter, and returns when the welcome has arrived.
func (r *running) greet(conn net.Conn, in *bufio.Reader) {
	r.t.Helper()
	body, err := contract.EncodeJSON(contract.Hello{Version: contract.LinkVersion, Instance: uuid.NewString()})
	if err == nil {
		err = contract.WriteFrame(conn, contract.FrameHello, body)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if kind, _, err := contract.ReadFrame(in); err != nil || kind != contract.FrameWelcome {
		r.t.Fatalf("frame of type %d (%v), not a welcome", kind, err)
	}
}

// ended checks that all links have ended and that the token cannot be renewed. The control
// plane closes the links before it answers, so one second is enough. It would close silent
// links anyway, but later.
func (h *held) ended(t *testing.T, node, token string) {
	t.Helper()
	for path, conn := range h.conns {
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s is still open: %v", path, err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+enrol.RenewPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set(contract.NodeHeader, node)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("the token is renewed: %d", res.StatusCode)
	}
}

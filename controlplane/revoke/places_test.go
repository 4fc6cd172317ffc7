package revoke

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/places"
)

// unbound treats every node that is not a gateway as a proxy of a mesh. All proxies share
// one token.
type unbound struct{ auth }

func (u unbound) Authenticate(ctx context.Context, node, token string) (Node, error) {
	n, err := u.auth.Authenticate(ctx, node, token)
	n.Owner = places.Owner{Token: "of " + node}
	if m, _, proxy := strings.Cut(node, "."); proxy {
		n.Owner = places.Owner{Token: "unbound", Mesh: m}
	}
	return n, err
}

// ofNode returns the request header that names a node.
func ofNode(node string) string { return contract.NodeHeader + ": " + node + "\r\n" }

// full reports whether a filter is not welcomed because there is no place for it. more
// holds further header lines of its request.
func (w *world) full(instance, more string) bool {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	fmt.Fprintf(conn, "GET /link HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %s\r\nAuthorization: Bearer good\r\n%s\r\n",
		contract.LinkProtocol, more)
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		w.t.Fatalf("upgrade: %v %v", res, err)
	}
	body, _ := contract.EncodeJSON(contract.Hello{Version: contract.LinkVersion, Instance: instance})
	if err := contract.WriteFrame(conn, contract.FrameHello, body); err != nil {
		w.t.Fatal(err)
	}
	kind, _, err := contract.ReadFrame(in)
	if err == nil && kind != contract.FrameWelcome {
		w.t.Errorf("frame of type %d", kind)
	}
	return errors.Is(err, io.EOF)
}

// TestPlacesOfGateways: a client that invents nodes with the token of a mesh takes no place
// of a gateway or of another mesh. Places that it returns are free again.
func TestPlacesOfGateways(t *testing.T) {
	w := &world{t: t, tweak: func(o *Options) {
		o.Auth, o.Places = unbound{}, places.Limits{All: 20, Kept: 4, Mesh: 10, Token: 8}
	}}
	w.init(nil)
	link := func(node string) *fake {
		t.Helper()
		f, _ := w.connectAccepting(contract.Hello{Instance: "i"}, contract.NodeHeader+": "+node+"\r\n")
		return f
	}
	var first *fake
	for i := range 8 {
		if f := link(fmt.Sprintf("m.%d", i)); i == 0 {
			first = f
		}
	}
	if !w.full("another", ofNode("m.8")) {
		t.Error("the token has more places than its share")
	}
	for i := range 8 {
		link(fmt.Sprintf("n.%d", i))
	}
	if !w.full("another", ofNode("o.1")) {
		t.Error("proxies have the places of gateways")
	}
	for i := range 4 {
		link(fmt.Sprintf("cp/default/%d", i))
	}
	if !w.full("another", ofNode("cp/default/5")) {
		t.Error("there are more places than all")
	}
	_ = first.conn.Close()
	until(t, "unlinked", func() bool { return w.r.Stats().Links == 19 })
	link("m.9")
}

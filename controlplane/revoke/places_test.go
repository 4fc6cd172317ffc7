package revoke

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

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
	f := w.upgraded(more)
	defer f.conn.Close()
	body, _ := contract.EncodeJSON(contract.Hello{Version: contract.LinkVersion, Instance: instance})
	f.send(contract.FrameHello, body)
	kind, _, err := contract.ReadFrame(f.in)
	if err == nil && kind != contract.FrameWelcome {
		w.t.Errorf("frame of type %d", kind)
	}
	return errors.Is(err, io.EOF)
}

// TestPlacesOfGateways: a client that invents nodes with the token of a mesh takes no place
// of a gateway or of another mesh. Places that it returns are free again.
func TestPlacesOfGateways(t *testing.T) {
	aloneWith(t, func(o *Options) {
		o.Auth, o.Places = unbound{}, places.Limits{All: 20, Kept: 4, Mesh: 10, Token: 8}
	}, func(t *testing.T, w *world) {
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
		first.cut()
		if n := w.r.Stats().Links; n != 19 {
			t.Errorf("%d links", n)
		}
		link("m.9")
	})
}

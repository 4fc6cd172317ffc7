package edge

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/inspect/interpret"
	"github.com/meshgate/meshgate/xds/resource"
)

// explained says what a gateway does with a request, in the words of the oracle but without the
// path at the upstream. known is false where it cannot be said.
func explained(t *testing.T, set *resource.Set, r request) (said string, known bool) {
	t.Helper()
	p := &interpret.Proxy{Set: set}
	l, err := p.Find(t.Context(), netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(r.port)))
	if err != nil || l == nil {
		t.Fatalf("no listener for %+v: %v", r, err)
	}
	asked := &interpret.Request{Method: r.method, Scheme: r.scheme, Host: r.host, Path: r.path}
	for _, name := range slices.Sorted(maps.Keys(r.headers)) {
		asked.Headers = append(asked.Headers, interpret.Header{Name: strings.ToLower(name), Value: r.headers[name]})
	}
	passage, err := p.Arrive(l, interpret.Connection{TLS: r.scheme == "https", ServerName: r.sni}, asked)
	var unsaid *interpret.Unsaid
	switch {
	case errors.As(err, &unsaid):
		return err.Error(), false
	case err != nil:
		t.Fatal(err)
	}
	name := strings.TrimSuffix(passage.Route, "-")
	if passage.Reply != nil {
		return fmt.Sprintf("%d %s", passage.Reply.Status, name), true
	}
	return "to " + name + " ", true
}

// agrees reports whether Envoy did what was explained.
func agrees(said, got string) bool {
	return said == got || strings.HasPrefix(said, "to ") && strings.HasPrefix(got, said)
}

package explain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/inspect/explain"
	"github.com/meshgate/meshgate/inspect/interpret"
	"github.com/meshgate/meshgate/xds/resource"
)

// many is a mesh of a transparent caller and of many servers of one service.
func many(t *testing.T, servers int) *world {
	w := newWorld(t, "m")
	w.put(mesh.Dataplanes, w.name, "client", &mesh.Dataplane{Networking: &mesh.Networking{
		Address: "127.0.0.1", Inbound: []mesh.Inbound{{Port: 9000, Tags: service("client")}},
		Outbound: []mesh.Outbound{{Address: "127.0.0.1", Port: 10000, Tags: service("server")}},
	}})
	w.joined = append(w.joined, "client")
	for i := range servers {
		name := fmt.Sprint("server-", i)
		w.put(mesh.Dataplanes, w.name, name, &mesh.Dataplane{Networking: &mesh.Networking{
			Address: fmt.Sprintf("127.0.1.%d", i+1), Inbound: []mesh.Inbound{{Port: 8080, Tags: service("server")}},
		}})
		w.joined = append(w.joined, name)
	}
	w.plan()
	return w
}

// TestExplanationEndsWithItsCaller: an explanation is given up in the midst of its endpoints when
// nobody waits for it any more, and says so.
func TestExplanationEndsWithItsCaller(t *testing.T) {
	w := many(t, 20)
	e := w.meshes()
	last, looked := e.Last, 0
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	e.Last = func(node string) *resource.Set {
		if looked++; looked == 3 {
			leave()
		}
		return last(node)
	}
	q := explain.Question{Source: "client", Destination: "server", Method: "GET", Path: "/"}
	err := e.Explain(ctx, w.name, q, func(any) error { t.Error("half of an explanation is shown"); return nil })
	if !errors.Is(err, context.Canceled) || looked != 3 {
		t.Errorf("%d proxies were looked at: %v", looked, err)
	}
}

// TestLookingForAListenerEnds: so does the search for a listener in what one proxy holds.
func TestLookingForAListenerEnds(t *testing.T) {
	w := many(t, 1)
	gone, leave := context.WithCancel(t.Context())
	leave()
	p := &interpret.Proxy{Set: w.planner.Set("client")}
	if l, err := p.Find(gone, netip.MustParseAddrPort("127.0.0.1:10000")); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", l, err)
	}
	for _, outbound := range []bool{true, false} {
		if _, err := p.Redirected(t.Context(), outbound); err != nil {
			t.Error(err)
		}
		if l, err := p.Redirected(gone, outbound); err == nil {
			t.Errorf("outbound %t: %+v", outbound, l)
		}
	}
}

// TestQueriesAreNotShown: a query may have a credential. It takes part in the explanation, and the
// answer does not repeat it.
func TestQueriesAreNotShown(t *testing.T) {
	w := many(t, 1)
	out := w.explain(explain.Question{Source: "client", Destination: "server", Method: "GET", Path: "/a?access_token=secret"})
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	if out.Path != "/a?..." || strings.Contains(string(text), "secret") {
		t.Errorf("%s", text)
	}
}

package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/xdstest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// lastWords receives the ends and refusals of streams as text.
type lastWords chan string

func (lastWords) Connected(server.Event)    {}
func (lastWords) Sent(server.Event)         {}
func (lastWords) Acknowledged(server.Event) {}
func (lastWords) Rejected(server.Event)     {}

func (l lastWords) Disconnected(e server.Event) {
	l <- fmt.Sprintf("%s left: %q", e.Node, e.Error)
}

func (l lastWords) Refused(e server.Event) {
	who := e.Node
	if e.Proved {
		who += ", proved,"
	}
	l <- fmt.Sprintf("%s refused: %s", who, e.Error)
}

// next returns the next text.
func (l lastWords) next(t *testing.T) string {
	t.Helper()
	select {
	case text := <-l:
		return text
	case <-time.After(patience):
		t.Fatal("nothing is said")
		return ""
	}
}

// A refusal names the node and the cause, even though no request is read of a stream whose
// token is not accepted.
func TestRefusalsNameTheNode(t *testing.T) {
	for name, tc := range map[string]struct{ node, token, named, want string }{
		"garbage":              {nodeID, "bad", nodeID, nodeID + " refused: internal detail"},
		"garbage without name": {nodeID, "bad", "", " refused: internal detail"},
		"expired":              {nodeID, "expired", "", nodeID + ", proved, refused: the token has expired"},
		"another proxy's":      {nodeID, "other", "somebody", nodeID + " refused: the token belongs to another proxy"},
		"of no dataplane":      {"ghost", "good", "", "ghost, proved, refused: no such proxy"},
		"no token, but a name": {nodeID, "", nodeID, nodeID + " refused: exactly one authorization value is required"},
	} {
		t.Run(name, func(t *testing.T) {
			said := make(lastWords, 8)
			r := setup(t, func(c *server.Config) { c.Auth, c.Observer = auth{}, said })
			r.publish(world()...)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if tc.named != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, server.NodeKey, tc.named)
			}
			if tc.token != "" {
				ctx = bearing(ctx, tc.token)
			}
			recv, err := deltaStream(ctx, r.conn, tc.node)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := recv(); err == nil {
				t.Fatal("not refused")
			}
			if diff := cmp.Diff(tc.want, said.next(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A stream that is ended because of its token is reported as disconnected first and then as
// refused, with the cause that the proxy does not see.
func TestRevokedStreamIsAwayAndRefused(t *testing.T) {
	a, said := &roll{}, make(lastWords, 8)
	r := setup(t, func(c *server.Config) { c.Auth, c.Observer = a, said })
	c := started(t, r, xdstest.Options{Token: "x"})
	a.set(time.Time{}, errors.Join(server.ErrUnauthenticated, errors.New("signing key 3 is gone")))
	r.srv.Recheck(t.Context(), nodeID)
	ends(t, c, codes.Unauthenticated)
	want := []string{
		nodeID + ` left: "the token does not prove who the proxy is"`,
		nodeID + ", proved, refused: signing key 3 is gone",
	}
	if diff := cmp.Diff(want, []string{said.next(t), said.next(t)}); diff != "" {
		t.Error(diff)
	}
}

// A token that nobody could judge, because the store is away, is not refused: the proxy is
// told to come back, and no operator is told that it has a bad token.
func TestUnjudgedIsNotRefused(t *testing.T) {
	for _, token := range []string{"unjudged", "unjudged later"} {
		said := make(lastWords, 8)
		r := setup(t, func(c *server.Config) { c.Auth, c.Observer = auth{}, said })
		r.publish(world()...)
		recv, err := deltaStream(bearing(t.Context(), token), r.conn, nodeID)
		if err != nil {
			t.Fatal(err)
		}
		_, err = recv()
		if got := status.Convert(err); got.Code() != codes.Unavailable || got.Message() != "the token cannot be judged at the moment" {
			t.Errorf("%s: %v", token, err)
		}
		c := started(t, r, xdstest.Options{Token: "good"})
		c.Close()
		if diff := cmp.Diff(nodeID+` left: ""`, said.next(t)); diff != "" {
			t.Errorf("%s: %s", token, diff)
		}
	}
}

// A proxy that leaves by itself is not reported as refused.
func TestWhoLeavesIsNotRefused(t *testing.T) {
	said := make(lastWords, 8)
	r := setup(t, func(c *server.Config) { c.Auth, c.Observer = auth{}, said })
	c := started(t, r, xdstest.Options{Token: "good"})
	c.Close()
	if diff := cmp.Diff(nodeID+` left: ""`, said.next(t)); diff != "" {
		t.Error(diff)
	}
}

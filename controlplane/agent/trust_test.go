package agent

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestTrustIsLearned: a node that heard of the next authority in time follows the control
// plane through its replacement, also over restarts of the node. Authorities that would cut
// it off are refused. Another operator's file starts anew.
func TestTrustIsLearned(t *testing.T) {
	s := memstore.New()
	t.Cleanup(func() { _ = s.Close() })
	a, err := identity.OpenAuthority(t.Context(), s, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	gate := admit.New(s, &admittest.Revoker{}, identity.Kinds(), time.Now).As(model.System("test"))
	dir := t.TempDir()
	given := filepath.Join(dir, "ca.pem")
	first := a.PEM()
	if err := os.WriteFile(given, first, 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", a.DataPlaneConfig([]string{"127.0.0.1"}))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).HandshakeContext(context.Background())
			_ = conn.Close()
		}
	}()
	node := func() *trust {
		n := &trust{given: given, learned: filepath.Join(dir, "roots.pem"), host: "127.0.0.1"}
		if err := n.open(); err != nil {
			t.Fatal(err)
		}
		return n
	}
	reach := func(n *trust) (tls.ConnectionState, error) {
		conn, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{
			MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: n.verifyConnection,
		})
		if err != nil {
			return tls.ConnectionState{}, err
		}
		defer conn.Close()
		return conn.ConnectionState(), nil
	}
	n := node()
	for range 3 {
		if err := a.Advance(t.Context(), gate, a.Phase()); err != nil {
			t.Fatal(err)
		}
		by, err := reach(n)
		if err != nil {
			t.Fatalf("in phase %q: %v", a.Phase(), err)
		}
		if err := n.learn(a.PEM(), by); err != nil {
			t.Fatal(err)
		}
		n = node() // the node starts again
	}
	by, err := reach(n)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.learn(first, by); err == nil || !strings.Contains(err.Error(), "would not trust this control plane") {
		t.Errorf("what would cut the node off was learned: %v", err)
	}
	if err := n.learn([]byte("nothing"), by); err == nil {
		t.Error("nothing was learned")
	}
	if _, err := reach(n); err != nil {
		t.Error(err)
	}
	// A node that was away all the time, or gets the old file again, fails.
	if err := os.WriteFile(given, append(first, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := reach(n); err == nil || !strings.Contains(err.Error(), "give the node the control plane's new ca.pem") {
		t.Errorf("who trusts the old authority alone: %v", err)
	}
	if err := os.WriteFile(given, a.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := reach(n); err != nil {
		t.Errorf("with the new ca.pem: %v", err)
	}
}

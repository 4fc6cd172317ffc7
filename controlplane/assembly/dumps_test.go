package assembly

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/adminlink"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/inspect"
	"github.com/meshgate/meshgate/xds/resource"
)

// everybody accepts all links.
type everybody struct{}

// Authenticate implements adminlink.Authenticator.
func (everybody) Authenticate(context.Context, string, string) (time.Time, error) {
	return time.Time{}, nil
}

// largest is the largest body that a link accepts in these tests, in bytes. The real limit is
// higher, but on a slow machine a body of that size takes longer than an agent may take.
const largest = 8 << 20

// linkedDumps returns dumps over real links to agents that the test plays; end closes the
// links.
func linkedDumps(t *testing.T, fetch func(ctx context.Context, node string) (io.ReadCloser, error), agents ...string) (dumps *inspect.Dumps, end func()) {
	t.Helper()
	links := adminlink.NewServer(adminlink.Options{Auth: everybody{}, MaxBody: largest, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	s := httptest.NewUnstartedServer(links)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, node := range agents {
		c := &adminlink.Client{
			Address: s.Listener.Addr().String(), TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, Node: node,
			Token: func() (string, error) { return "t", nil }, Log: slog.New(slog.DiscardHandler),
			Fetch: func(ctx context.Context, path string) (io.ReadCloser, error) {
				if path == "/ready" {
					return io.NopCloser(strings.NewReader("")), nil
				}
				return fetch(ctx, node)
			},
		}
		all.Go(func() { c.Run(ctx) })
		for { // only a request shows that a link is up
			if _, err := links.Ask(t.Context(), node, "/ready"); err == nil {
				break
			}
		}
	}
	t.Cleanup(func() { cancel(); all.Wait(); links.Close(); s.Close() })
	return inspect.NewDumps(inspect.DumpOptions{
		Ask: links.Ask, Unlinked: func(err error) bool { return errors.Is(err, adminlink.ErrNotConnected) },
		Last: func(string) (*resource.Set, *resource.Set) { return nil, nil },
		Node: func(name string) (nodes.Node, error) {
			return nodes.Node{Name: name, State: insight.Connected}, nil
		},
	}), cancel
}

// endless is a reader that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestLargeDumps: a dump of many chunks arrives complete, even several at once and
// repeatedly. A dump that is larger than a link accepts is reported and does not harm others.
func TestLargeDumps(t *testing.T) {
	large := []byte(`{"configs":["` + strings.Repeat("x", 4<<20) + `"]}`)
	dumps, _ := linkedDumps(t, func(_ context.Context, node string) (io.ReadCloser, error) {
		if node == "m.huge" {
			return io.NopCloser(io.LimitReader(endless{}, largest+1)), nil
		}
		return io.NopCloser(bytes.NewReader(large)), nil
	}, "m.a", "m.b", "m.huge")
	var all sync.WaitGroup
	for _, node := range []string{"m.a", "m.b", "m.a", "m.huge", "m.a"} {
		all.Go(func() {
			var got []byte
			err := dumps.XDS(t.Context(), node, "", func(dump []byte) { got = dump })
			if err != nil || (node == "m.huge") != bytes.Contains(got, fmt.Appendf(nil, "more than %d bytes", largest)) || node != "m.huge" && !bytes.Equal(got, large) {
				t.Errorf("%s: %d bytes, %v", node, len(got), err)
			}
		})
	}
	all.Wait()
}

// TestDumpOfAnEnvoyThatIsAway: if the Envoy does not answer, the reader gets the recorded
// configuration at once.
func TestDumpOfAnEnvoyThatIsAway(t *testing.T) {
	var asked atomic.Int32
	dumps, _ := linkedDumps(t, func(context.Context, string) (io.ReadCloser, error) {
		asked.Add(1)
		return nil, errors.New("envoy admin: connection refused")
	}, "m.a")
	var got string
	if err := dumps.XDS(t.Context(), "m.a", "", func(dump []byte) { got = string(dump) }); err != nil ||
		!strings.Contains(got, "did not answer") || !strings.Contains(got, "connection refused") || asked.Load() != 1 {
		t.Errorf("%q, %v, asked %d times", got, err, asked.Load())
	}
	if err := dumps.XDS(t.Context(), "m.nobody", "", func(dump []byte) { got = string(dump) }); err != nil || !strings.Contains(got, "cannot be asked at present") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestDumpOfAnAgentThatEnds: if an agent ends while it is asked, the reader waits only until
// the link ends, and not for the timeout of the request; the same holds for later readers.
// The agent answers nothing any more: its Envoy answers only after the test.
func TestDumpOfAnAgentThatEnds(t *testing.T) {
	ends, once, over := make(chan struct{}), sync.Once{}, make(chan struct{})
	dumps, end := linkedDumps(t, func(context.Context, string) (io.ReadCloser, error) {
		once.Do(func() { close(ends) })
		<-over
		return nil, errors.New("the agent answers after its end")
	}, "m.a")
	t.Cleanup(func() { close(over) })
	go func() {
		<-ends
		end()
	}()
	var got string
	began := time.Now()
	err := dumps.XDS(t.Context(), "m.a", "", func(dump []byte) { got = string(dump) })
	if took := time.Since(began); err != nil || !strings.Contains(got, "did not answer") || strings.Contains(got, "after its end") || took >= adminlink.AskTimeout/2 {
		t.Errorf("after %s: %q, %v", took, got, err)
	}
	if err := dumps.XDS(t.Context(), "m.a", "", func(dump []byte) { got = string(dump) }); err != nil || !strings.Contains(got, "control plane: the proxy") {
		t.Errorf("afterwards: %q, %v", got, err)
	}
}

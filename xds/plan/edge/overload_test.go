package edge

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/xds/bootstrap"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/plan/plantest"
)

// loaded is a gateway with a route to an upstream, not started yet.
type loaded struct {
	*bootstrapv3.Bootstrap
	// address is that of the listener, admin that of the administration interface.
	address, admin string
	// asked receives a value for each request that the upstream holds until release.
	asked   chan struct{}
	release func()
}

// newLoaded has an upstream that holds /a/held, answers /a/much without end, and answers
// everything else at once.
func newLoaded(t *testing.T) *loaded {
	t.Helper()
	l := &loaded{asked: make(chan struct{}, 16)}
	released := make(chan struct{})
	l.release = sync.OnceFunc(func() { close(released) })
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/much"):
			for block := make([]byte, 64<<10); r.Context().Err() == nil; {
				_, _ = w.Write(block)
			}
		case strings.HasSuffix(r.URL.Path, "/held"):
			l.asked <- struct{}{}
			<-released
		}
	}))
	t.Cleanup(upstream.Close)
	t.Cleanup(l.release)
	_, port, err := net.SplitHostPort(upstream.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := serviceSpec("")
	if s.Port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.put(gateway.Services, id(1, 0), 1, s)
	w.put(gateway.Routes, id(2, 0), 1, routeSpec(id(1, 0), "/a"))
	params := Params{Address: "127.0.0.1", HTTPPort: freePort(t)}
	l.Bootstrap = bare(t)
	add(t, l.Bootstrap, NewPlanner(params).Plan(w.state()).Set)
	l.address = fmt.Sprintf("127.0.0.1:%d", params.HTTPPort)
	adminPort := freePort(t)
	l.Admin, l.admin = &bootstrapv3.Admin{Address: socketAddress("127.0.0.1", adminPort)}, fmt.Sprintf("127.0.0.1:%d", adminPort)
	return l
}

// used returns the part of the heap that the overload manager considers.
func (l *loaded) used(t *testing.T) uint64 {
	t.Helper()
	resp, err := http.Get("http://" + l.admin + "/memory")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var m struct {
		HeapSize uint64 `json:"heap_size,string"`
		Unmapped uint64 `json:"pageheap_unmapped,string"`
		Free     uint64 `json:"pageheap_free,string"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m.HeapSize - m.Unmapped - m.Free
}

// take requests an endless answer and does not read it.
func (l *loaded) take(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", l.address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /a/much HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestFullHeapRefusesRequests: with the overload manager of our bootstrap, a gateway with a
// nearly full heap refuses requests and finishes those in progress. It accepts requests again
// when memory is free.
func TestFullHeapRefusesRequests(t *testing.T) {
	probe := newLoaded(t)
	plantest.Run(t, write(t, probe.Bootstrap))
	const room = 8 << 20
	atRest := probe.used(t)

	l := newLoaded(t)
	l.OverloadManager = overload(t, bootstrap.Config{MaxHeap: (atRest + room) * 100 / 98})
	plantest.Run(t, write(t, l.Bootstrap))
	held, err := net.DialTimeout("tcp", l.address, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }() // after its answer
	if _, err := io.WriteString(held, "GET /a/held HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.asked:
	case <-time.After(patience):
		t.Fatal("a request does not arrive")
	}
	status := func() string {
		r, body := ask(t, l.address, "a", "/a/x")
		return fmt.Sprintf("%d %s", r.StatusCode, body)
	}
	if got := status(); got != "200 " {
		t.Fatalf("at rest: %s", got)
	}
	var taking []net.Conn
	refusal := ""
	for deadline := time.Now().Add(patience); refusal == ""; {
		if time.Now().After(deadline) {
			t.Fatalf("nothing is refused: %d of %d bytes are used by %d answers", l.used(t), atRest+room, len(taking))
		}
		taking = append(taking, l.take(t))
		if got := status(); got != "200 " {
			refusal = got
		}
	}
	t.Logf("%d KiB at rest; %q with %d answers that nobody reads, at %d KiB", atRest>>10, refusal, len(taking), l.used(t)>>10)
	if !strings.HasPrefix(refusal, "503 ") || !strings.Contains(refusal, "envoy overloaded") {
		t.Errorf("refused with %s", refusal)
	}
	l.release()
	if err := held.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if r, err := http.ReadResponse(bufio.NewReader(held), nil); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("a request of before ended with %v, %v", r, err)
	}
	for _, conn := range taking {
		_ = conn.Close()
	}
	// Envoy notices the end and checks its heap with a delay; each attempt waits for its
	// answer.
	for deadline := time.Now().Add(patience); status() != "200 "; {
		if time.Now().After(deadline) {
			t.Fatalf("still refused at %d KiB: %s", l.used(t)>>10, status())
		}
	}
}

// TestIdleConnectionsEnd: the idle timeout of a listener ends idle connections, but none with
// a request in progress.
func TestIdleConnectionsEnd(t *testing.T) {
	l := newLoaded(t)
	const short = time.Second
	for _, listener := range l.StaticResources.Listeners {
		for _, chain := range listener.FilterChains {
			edit(t, chain.Filters[len(chain.Filters)-1].GetTypedConfig(), func(m *hcmv3.HttpConnectionManager) {
				idle := m.CommonHttpProtocolOptions.IdleTimeout
				if idle.AsDuration() != plan.ConnectionIdle {
					t.Errorf("idle connections last %v", idle.AsDuration())
				}
				m.CommonHttpProtocolOptions.IdleTimeout = durationpb.New(short)
			})
		}
	}
	plantest.Run(t, write(t, l.Bootstrap))
	dial := func(request string) net.Conn {
		conn, err := net.DialTimeout("tcp", l.address, patience)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	busy := dial("GET /a/held HTTP/1.1\r\nHost: a\r\n\r\n")
	select {
	case <-l.asked:
	case <-time.After(patience):
		t.Fatal("a request does not arrive")
	}
	for what, request := range map[string]string{"one that asked nothing": "", "one that was answered": "GET /a/x HTTP/1.1\r\nHost: a\r\n\r\n"} {
		if _, err := io.Copy(io.Discard, dial(request)); err != nil {
			t.Errorf("%s was not closed: %v", what, err)
		}
	}
	l.release()
	if r, err := http.ReadResponse(bufio.NewReader(busy), nil); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("a connection with a request ended with %v, %v", r, err)
	}
}

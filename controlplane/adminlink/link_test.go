package adminlink

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/xds/alarm"
	"github.com/meshgate/meshgate/xds/places"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds the wait for what is expected. A busy machine takes long, and no test passes
// because the time is up.
const patience = time.Minute

type auth struct{ until time.Time }

func (a auth) Authenticate(_ context.Context, node, token string) (time.Time, error) {
	if token != "token of "+node {
		return time.Time{}, fault.New(fault.Denied, "no")
	}
	return a.until, nil
}

// world is a server over TLS.
type world struct {
	*Server
	http *httptest.Server
}

func newWorld(t *testing.T, o Options) *world {
	t.Helper()
	w := &world{Server: newServer(t, o)}
	w.http = httptest.NewUnstartedServer(w.Server)
	w.http.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	w.http.StartTLS()
	t.Cleanup(func() {
		w.Close()
		w.http.Close()
	})
	return w
}

func (w *world) client(node string, fetch func(context.Context, string) (io.ReadCloser, error)) *Client {
	pool := x509.NewCertPool()
	pool.AddCert(w.http.Certificate())
	return &Client{
		Address: w.http.Listener.Addr().String(), TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12, ServerName: "127.0.0.1"},
		Node: node, Token: func() (string, error) { return "token of " + node, nil }, Fetch: fetch, Log: slog.New(slog.DiscardHandler),
	}
}

// run runs a client until the test ends.
func run(t *testing.T, c *Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

// ask repeats a question until the node is connected.
func (w *world) ask(t *testing.T, node, path string) ([]byte, error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		body, err := w.Ask(t.Context(), node, path)
		if !errors.Is(err, ErrNotConnected) {
			return body, err
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("the node did not connect")
		}
	}
}

func text(s string) func(context.Context, string) (io.ReadCloser, error) {
	return func(_ context.Context, path string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(path + " " + s)), nil
	}
}

// TestAsk: small and large answers arrive, also in many chunks.
func TestAsk(t *testing.T) {
	w := newWorld(t, Options{})
	large := strings.Repeat("0123456789abcdef", 1<<16)
	run(t, w.client("m.a", text(large)))
	for range 3 {
		got, err := w.ask(t, "m.a", "/config_dump")
		if err != nil || !bytes.Equal(got, []byte("/config_dump "+large)) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	if _, err := w.Ask(t.Context(), "m.b", "/ready"); !fault.Is(err, fault.Unavailable) || !errors.Is(err, ErrNotConnected) {
		t.Errorf("a node that is away: %v", err)
	}
}

// TestAllowed: both ends refuse paths that could change the proxy.
func TestAllowed(t *testing.T) {
	w := newWorld(t, Options{})
	run(t, w.client("m.a", func(_ context.Context, path string) (io.ReadCloser, error) {
		if path != "/ready" {
			t.Errorf("asked for %s", path)
		}
		return io.NopCloser(strings.NewReader("LIVE")), nil
	}))
	for _, p := range []string{"", "/quitquitquit", "/healthcheck/fail", "/ready?x", "/config_dump/../quitquitquit", "/logging?level=trace"} {
		if _, err := w.Ask(t.Context(), "m.a", p); !fault.Is(err, fault.Forbidden) {
			t.Errorf("%q: %v", p, err)
		}
	}
	if _, err := w.ask(t, "m.a", "/ready"); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	l := w.links["m.a"]
	w.mu.Unlock()
	l.turn <- struct{}{}
	if _, err := l.ask(t.Context(), question{Path: "/quitquitquit", Max: MaxBody}); err == nil || !strings.Contains(err.Error(), `"/quitquitquit" may not be asked for`) {
		t.Errorf("the agent let it pass: %v", err)
	}
}

// TestFailure: the link stays when Envoy does not answer, or does not complete its answer.
func TestFailure(t *testing.T) {
	w := newWorld(t, Options{})
	run(t, w.client("m.a", func(_ context.Context, path string) (io.ReadCloser, error) {
		switch path {
		case "/stats":
			return nil, errors.New("no socket")
		case "/clusters":
			return io.NopCloser(io.MultiReader(strings.NewReader("half"), failing{})), nil
		}
		return io.NopCloser(strings.NewReader("LIVE")), nil
	}))
	for path, want := range map[string]string{"/stats": "no socket", "/clusters": "unexpected EOF"} {
		if body, err := w.ask(t, "m.a", path); body != nil || !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q %v", path, body, err)
		}
	}
	if got, err := w.Ask(t.Context(), "m.a", "/ready"); err != nil || string(got) != "LIVE" {
		t.Errorf("afterwards: %q %v", got, err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestSlow: an agent that does not answer in time loses its link, and can reconnect.
func TestSlow(t *testing.T) {
	w := newWorld(t, Options{})
	run(t, w.client("m.a", func(ctx context.Context, path string) (io.ReadCloser, error) {
		if path == "/stats" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return io.NopCloser(strings.NewReader("LIVE")), nil
	}))
	if _, err := w.ask(t, "m.a", "/ready"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.Ask(ctx, "m.a", "/stats"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// hostile opens a link for an agent that breaks the rules as play says.
func (w *world) hostile(t *testing.T, node string, play func(io.ReadWriter)) {
	t.Helper()
	c := w.client(node, nil)
	conn, err := tls.Dial("tcp", c.Address, c.TLS)
	if err != nil {
		t.Fatal(err)
	}
	in, err := c.upgrade(conn, "token of "+node)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		play(struct {
			io.Reader
			io.Writer
		}{in, conn})
		_, _ = io.Copy(io.Discard, in)
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
}

func TestHostile(t *testing.T) {
	answer := func(frames func(id uint64) []frame) func(io.ReadWriter) {
		return func(rw io.ReadWriter) {
			f, err := read(rw)
			if err != nil {
				return
			}
			for _, g := range frames(f.id) {
				if write(rw, g) != nil {
					return
				}
			}
		}
	}
	for name, play := range map[string]func(io.ReadWriter){
		"another question": answer(func(id uint64) []frame { return []frame{{end, id + 1, nil}} }),
		"a question":       answer(func(id uint64) []frame { return []frame{{ask, id, nil}} }),
		"an unknown frame": answer(func(id uint64) []frame { return []frame{{99, id, nil}} }),
		"too large a frame": func(rw io.ReadWriter) {
			if _, err := read(rw); err == nil {
				_, _ = rw.Write(bytes.Repeat([]byte{0xff}, 64))
			}
		},
		"endless": func(rw io.ReadWriter) {
			f, err := read(rw)
			for err == nil {
				err = write(rw, frame{data, f.id, make([]byte, maxChunk)})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{})
			w.hostile(t, "m.a", play)
			if body, err := w.ask(t, "m.a", "/ready"); body != nil || !fault.Is(err, fault.Unavailable) {
				t.Errorf("%d bytes, %v", len(body), err)
			}
		})
	}
}

// TestRefused checks which nodes may open a link, and how many.
func TestRefused(t *testing.T) {
	w := newWorld(t, Options{Places: places.Limits{All: 1}})
	for _, test := range []struct {
		node, auth, upgrade string
		want                int
	}{
		{"m.a", "", Protocol, 401},
		{"", "Bearer token of ", Protocol, 401},
		{"m.a", "Bearer token of m.b", Protocol, 401},
		{"m.a", "Bearer token of m.a", "websocket", 426},
		{strings.Repeat("x", maxNode+1), "Bearer x", Protocol, 401},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.http.URL+Path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(NodeHeader, test.node)
		req.Header.Set("Authorization", test.auth)
		req.Header.Set("Upgrade", test.upgrade)
		resp, err := w.http.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != test.want {
			t.Errorf("%+v: %d", test, resp.StatusCode)
		}
	}
	run(t, w.client("m.a", text("")))
	if _, err := w.ask(t, "m.a", "/ready"); err != nil {
		t.Fatal(err)
	}
	if err := w.register(&link{node: "m.b"}); !errors.Is(err, places.ErrAll) {
		t.Errorf("a second link: %v", err)
	}
}

// TestPlacesOfGateways: a client that invents nodes with the token of a mesh takes no place
// of a gateway. A node that reconnects gets the place of its former link.
func TestPlacesOfGateways(t *testing.T) {
	s := newServer(t, Options{Places: places.Limits{All: 10, Kept: 2, Mesh: 6, Token: 4}})
	proxy, gateway := places.Owner{Token: "stolen", Mesh: "m"}, places.Owner{Token: "g"}
	var open []*link
	enter := func(node string, o places.Owner) error {
		conn, _ := net.Pipe()
		l := &link{node: node, owner: o, conn: conn, quit: make(chan struct{})}
		err := s.register(l)
		if err == nil {
			open = append(open, l)
		}
		return err
	}
	for i := range 4 {
		if err := enter(fmt.Sprint("m.", i), proxy); err != nil {
			t.Fatal(err)
		}
	}
	if err := enter("m.4", proxy); !errors.Is(err, places.ErrToken) {
		t.Errorf("one more of the token: %v", err)
	}
	if err := enter("m.1", proxy); err != nil {
		t.Errorf("one that comes back: %v", err)
	}
	for i := range 6 {
		if err := enter(fmt.Sprint("cp/default/", i), gateway); err != nil {
			t.Errorf("gateway %d: %v", i, err)
		}
	}
	if err := enter("cp/default/6", gateway); !errors.Is(err, places.ErrAll) {
		t.Errorf("one more of all: %v", err)
	}
	for _, l := range open {
		s.unregister(l)
		s.owned.Done()
	}
	if err := s.places.Take(proxy); err != nil || len(s.links) != 0 {
		t.Errorf("after all have left: %v, %d links", err, len(s.links))
	}
}

// TestExpiry: a link ends with the token that opened it.
func TestExpiry(t *testing.T) {
	w := newWorld(t, Options{Auth: auth{time.Now().Add(100 * time.Millisecond)}})
	ended := make(chan struct{})
	w.hostile(t, "m.a", func(rw io.ReadWriter) {
		_, _ = read(rw)
		close(ended)
	})
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the link outlives its token")
	}
}

// newServer returns a server that accepts the tokens of nodes.
func newServer(t *testing.T, o Options) *Server {
	t.Helper()
	if o.Auth == nil {
		o.Auth = auth{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := NewServer(o)
	t.Cleanup(s.Close)
	return s
}

// pipeLink returns the link to an agent at the other end of a connection.
func pipeLink(node string, conn net.Conn) *link {
	return &link{node: node, token: "token of " + node, conn: conn, in: bufio.NewReader(conn), turn: make(chan struct{}, 1), quit: make(chan struct{})}
}

// pipe opens the link of an agent without a network, so that a test can use virtual time.
// The returned channel yields why the link ended.
func pipe(t *testing.T, s *Server, node string, until time.Time) <-chan error {
	conn, agent := net.Pipe()
	l := pipeLink(node, conn)
	ended := make(chan error, 1)
	var both sync.WaitGroup
	both.Go(func() { ended <- s.serve(t.Context(), l, until) })
	both.Go(func() { _ = (&Client{}).serve(t.Context(), agent, agent) }) // it ends with the link
	t.Cleanup(func() { l.close(errClosing); both.Wait() })
	return ended
}

// pipeTo does what pipe does with a given agent. end ends the link.
func pipeTo(t *testing.T, s *Server, c *Client, node string) (end func()) {
	conn, agent := net.Pipe()
	l := pipeLink(node, conn)
	var both sync.WaitGroup
	both.Go(func() { _ = s.serve(t.Context(), l, time.Time{}) })
	both.Go(func() { _ = c.serve(t.Context(), agent, agent) })
	end = func() { l.close(errClosing); both.Wait() }
	t.Cleanup(end)
	return end
}

// TestExpiryAfterSleep: if a token expired while the host slept, or while its clock was
// behind, its link ends soon after. Timers count only the time that the host was awake.
func TestExpiryAfterSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		s := newServer(t, Options{Now: func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }})
		ended := pipe(t, s, "m.a", time.Now().Add(24*time.Hour))
		time.Sleep(time.Hour)
		slept.Store(int64(23 * time.Hour))
		time.Sleep(alarm.Slice)
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, errExpired) {
				t.Errorf("the link ended with %v", err)
			}
		default:
			t.Error("the link outlives its token")
		}
	})
}

// TestReplaced: the newest link of a node answers.
func TestReplaced(t *testing.T) {
	w := newWorld(t, Options{})
	ended := make(chan struct{})
	w.hostile(t, "m.a", func(rw io.ReadWriter) {
		_, _ = read(rw)
		close(ended)
	})
	run(t, w.client("m.a", text("new")))
	<-ended
	if got, err := w.ask(t, "m.a", "/ready"); err != nil || string(got) != "/ready new" {
		t.Errorf("%q %v", got, err)
	}
}

func FuzzFrame(f *testing.F) {
	var b bytes.Buffer
	if err := write(&b, frame{data, 7, []byte("body")}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{0, 0, 0, 8, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := read(bytes.NewReader(in))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := write(&out, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(in, out.Bytes()) {
			t.Errorf("%x was read as %x", in, out.Bytes())
		}
	})
}

// TestRenewIsAskedFor: the Connected callback may ask the agent to take a new token, and
// gets the new token when the agent reconnects.
func TestRenewIsAskedFor(t *testing.T) {
	var w *world
	seen, answered := make(chan string, 10), make(chan struct{})
	w = newWorld(t, Options{Connected: func(ctx context.Context, node, token string, _ time.Time) {
		seen <- token
		if token == "token of m.a" {
			if _, err := w.Ask(ctx, node, RenewPath); err != nil {
				t.Error(err)
			}
			close(answered)
		}
	}, Auth: anybody{}})
	var token atomic.Value
	token.Store("token of m.a")
	var c *Client
	asked := make(chan struct{}, 10)
	c = w.client("m.a", func(_ context.Context, path string) (io.ReadCloser, error) {
		if path != RenewPath {
			t.Errorf("asked for %s", path)
		}
		asked <- struct{}{}
		return http.NoBody, nil
	})
	c.Token = func() (string, error) { return token.Load().(string), nil }
	c.Again() // without a link this does nothing
	run(t, c)
	wait(t, seen, "token of m.a")
	<-asked
	<-answered // a link that ends loses the answers on their way
	token.Store("another")
	c.Again()
	wait(t, seen, "another")
	if got := w.Linked(); len(got) != 1 || got[0] != "m.a" {
		t.Errorf("links of %v", got)
	}
}

type anybody struct{}

func (anybody) Authenticate(context.Context, string, string) (time.Time, error) {
	return time.Time{}, nil
}

func wait(t *testing.T, c <-chan string, want string) {
	t.Helper()
	select {
	case got := <-c:
		if got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("%q did not come", want)
	}
}

// TestTrust: the roots from the control plane are passed on with the state of their
// connection, and the answer says whether they were accepted.
func TestTrust(t *testing.T) {
	w := newWorld(t, Options{})
	c := w.client("m.a", text("LIVE"))
	c.Trust = func(roots []byte, by tls.ConnectionState) error {
		if len(by.PeerCertificates) == 0 {
			t.Error("by nobody")
		}
		if string(roots) != "good" {
			return errors.New("not to be trusted")
		}
		return nil
	}
	run(t, c)
	run(t, w.client("m.old", text("LIVE")))
	for _, node := range []string{"m.a", "m.old"} {
		if _, err := w.ask(t, node, "/ready"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Server.Trust(t.Context(), "m.a", []byte("good")); err != nil {
		t.Error(err)
	}
	for node, want := range map[string]string{"m.a": "not to be trusted", "m.old": "roots are not taken here", "m.b": "not connected"} {
		if err := w.Server.Trust(t.Context(), node, []byte("bad")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", node, err)
		}
	}
}

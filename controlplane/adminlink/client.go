package adminlink

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// Client is the agent's side of a link.
type Client struct {
	// Address is host:port of the data-plane server. TLS verifies that server.
	Address string
	TLS     *tls.Config
	// Node is the node id. Token is called for every connection.
	Node  string
	Token func() (string, error)
	// Fetch requests a path from the local Envoy. ctx also bounds the reading of the body.
	// It is called only with allowed paths.
	Fetch func(ctx context.Context, path string) (io.ReadCloser, error)
	// Trust stores the roots that the control plane sends. by is the state of the
	// connection. If Trust is nil, roots are refused.
	Trust func(roots []byte, by tls.ConnectionState) error
	// Report returns the state of the local proxy. It must return within a few seconds. If
	// it is nil, nothing is reported.
	Report func(ctx context.Context) Report
	Log    *slog.Logger

	mu   sync.Mutex
	conn net.Conn // of the open link
}

// Again ends the open link. The next link presents the token of that time.
func (c *Client) Again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close() // the connection is given up, whatever Close returns
	}
}

// hold sets the connection that Again ends.
func (c *Client) hold(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
}

// Pauses between connections. A link that was accepted resets the pause to firstPause.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	// maxUpgrade bounds the answer to the upgrade in bytes.
	maxUpgrade  = 64 << 10
	dialTimeout = 10 * time.Second
)

// Run keeps a link open until ctx ends. A control plane that is away or does not support
// links does not affect the proxy; Run tries again.
func (c *Client) Run(ctx context.Context) {
	pause := firstPause
	for {
		up, err := c.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if up {
			pause = firstPause
		}
		c.Log.Debug("admin link is away", "error", err, "pause", pause)
		wait := time.NewTimer(pause/2 + rand.N(pause)) //nolint:gosec // spreads agents, no secret
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
		pause = min(pause*2, maxPause)
	}
}

// once runs one link. up reports whether it was accepted.
func (c *Client) once(ctx context.Context) (up bool, err error) {
	config := c.TLS.Clone()
	config.NextProtos = []string{"http/1.1"} // HTTP/2 has no such upgrade
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: config}).DialContext(dialing, "tcp", c.Address)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	// The token is read after hold, so that Again can end this connection. Otherwise a
	// token that is replaced in between would stay on the link.
	c.hold(conn)
	defer c.hold(nil)
	token, err := c.Token()
	if err != nil {
		return false, err
	}
	in, err := c.upgrade(conn, token)
	if err != nil {
		return false, err
	}
	return true, c.serve(ctx, conn, in)
}

func (c *Client) upgrade(conn net.Conn, token string) (io.Reader, error) {
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return nil, err
	}
	req, err := http.NewRequest(http.MethodGet, "https://"+c.Address+Path, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", Protocol)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set(NodeHeader, c.Node)
	if err := req.Write(conn); err != nil {
		return nil, fmt.Errorf("send upgrade: %w", err)
	}
	limited := &io.LimitedReader{R: conn, N: maxUpgrade}
	in := bufio.NewReader(limited)
	resp, err := http.ReadResponse(in, req)
	if err != nil {
		return nil, fmt.Errorf("read answer to upgrade: %w", err)
	}
	_ = resp.Body.Close() // a 101 has none, and any other answer is dropped with the connection
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("the control plane answered %d to the upgrade", resp.StatusCode)
	}
	limited.N = 1 << 62 // frames have their own limit
	return in, nil
}

// serve answers questions one after the other.
func (c *Client) serve(ctx context.Context, conn net.Conn, in io.Reader) error {
	for {
		if err := conn.SetDeadline(time.Now().Add(idle)); err != nil {
			return err
		}
		f, err := read(in)
		if err != nil {
			return err
		}
		switch f.kind {
		case ping:
			err = write(conn, frame{kind: pong, body: c.report(ctx, f.body)})
		case ask:
			err = c.answer(ctx, conn, f)
		default:
			err = fmt.Errorf("frame of type %d from the control plane", f.kind)
		}
		if err != nil {
			return err
		}
	}
}

// report returns the body of the pong for a ping.
func (c *Client) report(ctx context.Context, ping []byte) []byte {
	if c.Report == nil {
		return nil
	}
	r := c.Report(ctx)
	return r.encode(ping)
}

// refused is the error of a question that gets no answer. The link continues.
type refused struct{ error }

func (c *Client) answer(ctx context.Context, conn net.Conn, f frame) error {
	err := c.stream(ctx, conn, f)
	if r, ok := errors.AsType[refused](err); ok {
		reason := r.Error()
		return write(conn, frame{fail, f.id, []byte(reason[:min(len(reason), maxReason)])})
	}
	if err != nil {
		return err
	}
	return write(conn, frame{kind: end, id: f.id})
}

// learn answers a question that carries roots.
func (c *Client) learn(conn net.Conn, roots []byte) error {
	secured, ok := conn.(*tls.Conn)
	if !ok || c.Trust == nil {
		return refused{errors.New("roots are not taken here")}
	}
	if err := c.Trust(roots, secured.ConnectionState()); err != nil {
		return refused{err}
	}
	return nil
}

func (c *Client) stream(ctx context.Context, conn net.Conn, f frame) error {
	q, err := parseQuestion(f.body)
	if err != nil {
		return refused{err}
	}
	if !Allowed(q.Path) {
		return refused{fmt.Errorf("%q may not be asked for", q.Path)}
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if q.Path == RootsPath {
		return c.learn(conn, q.Roots)
	}
	body, err := c.Fetch(ctx, q.Path)
	if err != nil {
		return refused{err}
	}
	defer func() { _ = body.Close() }()
	chunk := make([]byte, maxChunk)
	for left := q.Max; ; {
		n, err := body.Read(chunk)
		if left -= int64(n); left < 0 {
			return refused{fmt.Errorf("the answer has more than %d bytes", q.Max)}
		}
		if n > 0 {
			if err := write(conn, frame{data, f.id, chunk[:n]}); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF: // a wrapped EOF means that the answer was cut short
			return nil
		case err != nil:
			return refused{err}
		}
	}
}

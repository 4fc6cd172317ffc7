package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Admin is the client of Envoy's admin interface.
type Admin struct {
	http *http.Client
}

// NewAdmin returns a client for a Unix socket.
func NewAdmin(socket string) *Admin { return newAdmin("unix", socket) }

// NewPortAdmin returns a client for a port on loopback.
func NewPortAdmin(port int) *Admin {
	return newAdmin("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

func newAdmin(network, address string) *Admin {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
	return &Admin{http: &http.Client{
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
		Timeout:   5 * time.Second,
	}}
}

// Do sends a request and returns the body of a 200.
func (a *Admin) Do(ctx context.Context, method, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://envoy"+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return "", fmt.Errorf("envoy admin: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return "", fmt.Errorf("envoy admin: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", &statusError{method, path, resp.StatusCode}
	}
	return string(body), nil
}

// statusError is an answer other than 200. It shows that an Envoy is there.
type statusError struct {
	method, path string
	status       int
}

// Error implements error.
func (e *statusError) Error() string {
	return fmt.Sprintf("envoy admin: %s %s answered %d", e.method, e.path, e.status)
}

// fetchTimeout bounds a whole answer, which may be large.
const fetchTimeout = 10 * time.Second

// Fetch requests a path and returns the body of a 200 as a stream. The caller closes it.
func (a *Admin) Fetch(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://envoy"+path, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: a.http.Transport, Timeout: fetchTimeout}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("envoy admin: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("envoy admin: GET %s answered %d", path, resp.StatusCode)
	}
	return resp.Body, nil
}

// Statistics returns the metrics of Envoy and the filter in Prometheus' text format.
// Metrics that were never used, which are most of them, are left out. The caller closes the
// stream.
func (a *Admin) Statistics(ctx context.Context) (io.ReadCloser, error) {
	return a.Fetch(ctx, "/stats/prometheus?usedonly")
}

// readyTick is how often the agent asks a starting Envoy whether it is ready. Envoy has no
// event for that.
const readyTick = 50 * time.Millisecond

// WaitReady returns nil once Envoy serves, or the error of ctx.
func (a *Admin) WaitReady(ctx context.Context) error {
	tick := time.NewTicker(readyTick)
	defer tick.Stop()
	for {
		if _, err := a.Do(ctx, http.MethodGet, "/ready"); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
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
		return "", fmt.Errorf("envoy admin: %s %s answered %d", method, path, resp.StatusCode)
	}
	return string(body), nil
}

// fetchTimeout bounds a whole answer, which may be large.
const fetchTimeout = 10 * time.Second

// Fetch asks for a path and returns the body of a 200 unread. The caller closes
// it.
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

// readyTick is how often a starting Envoy is asked whether it is live. It has no
// event for that either.
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

// drainTick is how often a draining Envoy is asked whether requests are left.
// It has no event for that.
const drainTick = 50 * time.Millisecond

// Drain tells Envoy to send its clients away and returns when no request is
// left or ctx ends. SIGTERM alone would cut requests that are in flight.
func (a *Admin) Drain(ctx context.Context, log *slog.Logger) {
	if _, err := a.Do(ctx, http.MethodPost, "/healthcheck/fail"); err != nil {
		log.Warn("envoy cannot be drained", "error", err)
		return
	}
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	for left := 0; ; {
		n, err := a.active(ctx)
		switch {
		case err == nil && n == 0:
			return
		case err == nil:
			left = n
		case ctx.Err() == nil:
			log.Warn("envoy does not say whether requests are in flight", "error", err)
			return
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				log.Warn("drain time is over with requests in flight", "requests", left)
			}
			return
		case <-tick.C:
		}
	}
}

// active counts downstream requests in flight, those of the admin interface
// not among them.
func (a *Admin) active(ctx context.Context) (int, error) {
	text, err := a.Do(ctx, http.MethodGet, "/stats?filter=^http\\..*downstream_rq_active$")
	if err != nil {
		return 0, err
	}
	total := 0
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if n, err := strconv.Atoi(value); ok && err == nil && !strings.HasPrefix(name, "http.admin.") {
			total += n
		}
	}
	return total, nil
}

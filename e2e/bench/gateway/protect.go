package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// tokenText is one of many tokens.
func tokenText(i int) string { return fmt.Sprintf("%032d", i) }

// protected fills the store in steps and measures requests and memory at each:
// first the tokens on one route, then the routes with all tokens.
func (r *report) protected(ctx context.Context, p *plane, o *options) error {
	live, routes := 0, 1
	for _, n := range o.tokens {
		if err := r.fill(ctx, p, &o.load, live, n); err != nil {
			return fmt.Errorf("%d tokens: %w", n, err)
		}
		live = n
		if err := r.requests(ctx, p, &o.load, live, live, routes); err != nil {
			return err
		}
	}
	for _, n := range o.routes {
		if n <= routes || live == 0 {
			continue
		}
		for i := routes; i < n; i++ { // one after the other, like an operator's tool
			if _, err := p.configure(ctx, "/services/bench/routes", map[string]any{"name": fmt.Sprintf("route-%d", i), "paths": []string{routePath(i)}}); err != nil {
				return fmt.Errorf("%d routes: %w", n, err)
			}
		}
		if err := p.converged(ctx); err != nil {
			return fmt.Errorf("%d routes: %w", n, err)
		}
		routes = n
		for _, inTurn := range o.tokens {
			if err := r.requests(ctx, p, &o.load, live, inTurn, routes); err != nil {
				return err
			}
		}
	}
	return nil
}

// requests measures requests with random tokens of some, on random routes.
func (r *report) requests(ctx context.Context, p *plane, l *load, live, inTurn, routes int) error {
	samples, err := l.run(ctx, p, func(ctx context.Context, _ int) error {
		return p.visit(ctx, rand.IntN(inTurn), rand.IntN(routes))
	})
	if err != nil {
		return fmt.Errorf("requests with %d of %d tokens on %d routes: %w", inTurn, live, routes, err)
	}
	r.Protected = append(r.Protected, row{fmt.Sprintf("%d of %d tokens in turn, %d routes", inTurn, live, routes), samples})
	return nil
}

// visit sends one request with a token to a route.
func (p *plane) visit(ctx context.Context, token, route int) error {
	_, _, err := p.send(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%sx", p.HTTP, routePath(route)), "", "Bearer "+tokenText(token), "")
	return err
}

// fill creates tokens up to a number, has each of them used once, and notes what
// that occupies.
func (r *report) fill(ctx context.Context, p *plane, l *load, from, n int) error {
	before, err := p.occupied()
	if err != nil {
		return err
	}
	if err := l.each(ctx, from, n, func(ctx context.Context, i int) error {
		_, _, err := p.create(ctx, "/oauth2_tokens", map[string]any{
			"credential": map[string]any{"id": p.application}, "service": map[string]any{"id": p.service},
			"expires_in": 1 << 30, "access_token": tokenText(i), "scope": "email profile", "authenticated_userid": "user-" + strconv.Itoa(i),
		})
		return err
	}); err != nil {
		return err
	}
	if err := l.each(ctx, from, n, func(ctx context.Context, i int) error { return p.visit(ctx, i, 0) }); err != nil {
		return err
	}
	after, err := p.occupied()
	r.Memory = append(r.Memory, growth{n - from, before, after})
	return err
}

// occupied is what the places that keep tokens occupy, in bytes. Redis is 0
// where the cache is embedded: it is then part of the control plane.
type occupied struct {
	Envoy        int64 `json:"envoy_rss"`
	ControlPlane int64 `json:"control_plane_rss"`
	Redis        int64 `json:"redis_used_memory"`
	Store        int64 `json:"store_files"`
}

func (p *plane) occupied() (o occupied, err error) {
	if o.Envoy, err = rss(p.envoy); err != nil {
		return o, err
	}
	if o.ControlPlane, err = rss(p.children[len(p.children)-1].Process.Pid); err != nil {
		return o, err
	}
	files, err := filepath.Glob(filepath.Join(p.StateDir, "meshgate.db*"))
	if err != nil {
		return o, err
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return o, err
		}
		o.Store += info.Size()
	}
	if p.redis != 0 {
		o.Redis, err = usedMemory(p.redis)
	}
	return o, err
}

// rss reads VmRSS of proc_pid_status(5).
func rss(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmRSS", pid)
}

// usedMemory asks a Redis.
func usedMemory(port int) (int64, error) {
	out, err := exec.Command("redis-cli", "-p", strconv.Itoa(port), "INFO", "memory").Output()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, "used_memory:"); ok {
			return strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		}
	}
	return 0, fmt.Errorf("no used_memory in %q", out)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"time"
)

// round is one measurement.
type round struct {
	spread
	// Clients is how many the round waited for.
	Clients int `json:"clients"`
	// CPU and HarnessCPU are seconds of the control plane and of this program.
	CPU        float64 `json:"control_plane_cpu_s"`
	HarnessCPU float64 `json:"harness_cpu_s"`
	// Window is how long CPU and traffic were counted, in seconds: from before
	// the change until no message had come for the time of quiet.
	Window float64 `json:"window_s"`
	// Turned is who had to come back before it was let in.
	Turned turned `json:"turned_away"`
	traffic
}

// result is one scenario.
type result struct {
	Name   string  `json:"name"`
	What   string  `json:"what"`
	Failed string  `json:"failed,omitempty"`
	Rounds []round `json:"rounds"`
	// Profiled says that a CPU profile was taken meanwhile, which costs CPU.
	Profiled bool `json:"profiled,omitempty"`
}

// bench is a run of the program.
type bench struct {
	plane *plane
	fleet *fleet
	work  workload
	// policies are written beside those that every mesh has.
	policies []installed
	rounds   int
	timeout  time.Duration
	idle     time.Duration
	profile  string
	length   time.Duration // of a profile
	out      io.Writer
}

// scenario is what is done and measured several times.
type scenario struct {
	name, what string
	// rounds is 0 for the number that was asked for.
	rounds int
	// free says that the scenario connects the fleet itself.
	free bool
	// once does round i.
	once func(ctx context.Context, i int) (round, error)
}

// run measures one scenario. A failure ends it, not the others.
func (b *bench) run(ctx context.Context, s *scenario) result {
	res := result{Name: s.name, What: s.what}
	n := b.rounds
	if s.rounds > 0 {
		n = s.rounds
	}
	fail := func(err error) result {
		res.Failed = err.Error()
		return res
	}
	if !s.free {
		if err := b.fleet.repair(ctx, b.timeout); err != nil {
			return fail(err)
		}
	}
	var wg sync.WaitGroup
	var profiled error
	if b.profile != "" {
		res.Profiled = true
		wg.Go(func() { profiled = b.profileBoth(ctx, filepath.Join(b.profile, s.name)) })
	}
	for i := range n {
		limited, cancel := context.WithTimeout(ctx, b.timeout)
		r, err := s.once(limited, i)
		cancel()
		if err != nil {
			if r.Window > 0 { // it was measured, and found wanting
				res.Rounds = append(res.Rounds, r)
			}
			wg.Wait()
			return fail(errors.Join(fmt.Errorf("round %d of %d: %w", i+1, n, err), profiled))
		}
		res.Rounds = append(res.Rounds, r)
	}
	wg.Wait()
	if b.profile != "" && profiled == nil {
		// What has been allocated since the start, and what is in use.
		profiled = b.plane.fetch(ctx, filepath.Join(b.profile, s.name+"-memory.pprof"), "allocs")
	}
	if profiled != nil {
		return fail(fmt.Errorf("profile: %w", profiled))
	}
	return res
}

// profileBoth profiles the control plane and, into a file of its own, this program: the
// two share the machine.
func (b *bench) profileBoth(ctx context.Context, path string) error {
	own, err := os.Create(path + "-clients.pprof")
	if err != nil {
		return err
	}
	defer own.Close()
	if err := pprof.StartCPUProfile(own); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return b.plane.profile(ctx, path+".pprof", b.length)
}

// measure does something and waits until all who take part have got there, and
// then for quiet. Without a goal it waits for quiet alone, at least the time
// given.
func (b *bench) measure(ctx context.Context, g *goal, window time.Duration, do func() error) (r round, err error) {
	if g != nil {
		if r.Clients = b.fleet.aim(g); r.Clients == 0 {
			return r, errors.New("no client takes part")
		}
	}
	before, err := b.plane.cpu()
	if err != nil {
		return r, err
	}
	_ = b.fleet.turns()
	own, sent, start := ownCPU(), b.fleet.traffic(), time.Now()
	if err := do(); err != nil {
		return r, errors.Join(err, b.fleet.breakage())
	}
	if g != nil {
		if err := b.fleet.await(ctx, g); err != nil {
			return r, err
		}
	}
	if err := b.fleet.settle(ctx, max(window, quiet)); err != nil {
		return r, err
	}
	r.Window = time.Since(start).Seconds()
	after, err := b.plane.cpu()
	if err != nil {
		return r, err
	}
	if err := b.fleet.breakage(); err != nil {
		return r, err
	}
	r.Turned = b.fleet.turns()
	r.CPU, r.HarnessCPU, r.traffic = after-before, ownCPU()-own, b.fleet.traffic().sub(sent)
	if g != nil {
		r.spread = spreadOf(g.latencies(start))
	}
	return r, nil
}

// everyone is a want of one part for each client.
func everyone(*client) int { return 1 }

// once per distinct content is enough for a question about a shared resource.
func cached(ask func(value []byte) (bool, error)) func(held, []byte) (bool, error) {
	var known sync.Map
	return func(h held, value []byte) (bool, error) {
		if v, ok := known.Load(h.content); ok {
			return v.(bool), nil
		}
		v, err := ask(value)
		if err == nil {
			known.Store(h.content, v)
		}
		return v, err
	}
}

// start prepares the control plane, the mesh and the clients.
func (b *bench) start(ctx context.Context, binary, dir string, args []string) error {
	p, err := startPlane(ctx, binary, dir, args)
	if err != nil {
		return err
	}
	b.plane = p
	roots, err := os.ReadFile(p.CAFile())
	if err != nil {
		return err
	}
	t, err := clientTLS(roots)
	if err != nil {
		return err
	}
	b.fleet = newFleet(fmt.Sprintf("127.0.0.1:%d", p.Data), meshName, t)
	return b.setUp(ctx)
}

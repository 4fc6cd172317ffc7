package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// load is how a scenario is measured.
type load struct {
	clients, slices int
	warm, slice     time.Duration
}

// operation is one unit of work of a client, from 0 on. It is called again as
// soon as it returns.
type operation func(ctx context.Context, client int) error

// sample is one slice.
type sample struct {
	Operations   int64   `json:"operations"`
	Seconds      float64 `json:"seconds"`
	ControlPlane float64 `json:"control_plane_cpu_s"`
	Envoy        float64 `json:"envoy_cpu_s"`
}

// run drives an operation with all clients and takes the samples. The first
// failure of an operation ends it.
func (l *load) run(ctx context.Context, p *plane, op operation) ([]sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var done atomic.Int64
	var work sync.WaitGroup
	for client := range l.clients {
		work.Go(func() {
			for ctx.Err() == nil {
				if err := op(ctx, client); err != nil {
					cancel(err) // the first cause counts, also our own end
					return
				}
				done.Add(1)
			}
		})
	}
	samples, err := l.take(ctx, p, &done)
	cancel(nil)
	work.Wait()
	return samples, err
}

func (l *load) take(ctx context.Context, p *plane, done *atomic.Int64) ([]sample, error) {
	if err := pause(ctx, l.warm); err != nil {
		return nil, err
	}
	var out []sample
	for range l.slices {
		n, start := done.Load(), time.Now()
		before, err := p.usage()
		if err != nil {
			return nil, err
		}
		if err := pause(ctx, l.slice); err != nil {
			return nil, err
		}
		after, err := p.usage()
		if err != nil {
			return nil, err
		}
		out = append(out, sample{done.Load() - n, time.Since(start).Seconds(), after.controlPlane - before.controlPlane, after.envoy - before.envoy})
	}
	return out, nil
}

// pause lets the load go on for a time.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// each does something for every number below n, with all clients.
func (l *load) each(ctx context.Context, from, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	next.Store(int64(from))
	var work sync.WaitGroup
	for range l.clients {
		work.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1) - 1)
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	work.Wait()
	return context.Cause(ctx)
}

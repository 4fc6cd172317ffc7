package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

func testRaces(t *testing.T, open Open) {
	s := one(t, open)
	ctx := bounded(t)
	const rounds, racers = 10, 8
	for round := range rounds {
		box := fmt.Sprintf("box%d", round)
		create(t, s, res(Box, box, Item{}))
		var won atomic.Int32
		var deleted atomic.Bool
		var attached atomic.Int32
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() { // all use the same secret
				_, err := s.Update(ctx, model.Credential, func(tx store.Tx) error {
					_, err := tx.Create(res(Badge, fmt.Sprintf("%d-%d", round, i), Item{Secret: box}))
					return err
				})
				switch {
				case err == nil:
					won.Add(1)
				case !fault.Is(err, fault.Unique):
					t.Errorf("loser of a unique value: %v", err)
				}
			})
			wg.Go(func() { // all refer to a box that is being deleted
				_, err := s.Update(ctx, model.Config, func(tx store.Tx) error {
					_, err := tx.Create(res(Thing, fmt.Sprintf("%d-%d", round, i), Item{Box: box}))
					return err
				})
				switch {
				case err == nil:
					attached.Add(1)
				case !fault.Is(err, fault.Dangling):
					t.Errorf("loser of a reference: %v", err)
				}
			})
		}
		wg.Go(func() {
			_, err := remove(ctx, s, Box, box)
			deleted.Store(err == nil)
			if err != nil && !fault.Is(err, fault.Referenced) {
				t.Errorf("deleting a box: %v", err)
			}
		})
		wg.Wait()
		if won.Load() != 1 {
			t.Errorf("%d racers hold one unique value", won.Load())
		}
		if deleted.Load() == (attached.Load() > 0) {
			t.Errorf("box deleted: %v, and %d things reference it", deleted.Load(), attached.Load())
		}
	}
}

// register is the model of the linearizability check: one resource, written by
// compare-and-swap.
type registerInput struct {
	read    bool
	version uint64
	value   int
}

type registerOutput struct {
	ok      bool
	version uint64
	value   int
}

var register = porcupine.Model{
	Init: func() any { return registerOutput{version: 1} },
	Step: func(state, input, output any) (bool, any) {
		st, in, out := state.(registerOutput), input.(registerInput), output.(registerOutput)
		switch {
		case in.read:
			return out.version == st.version && out.value == st.value, st
		case out.ok:
			return in.version == st.version && out.version == st.version+1, registerOutput{version: out.version, value: in.value}
		}
		return in.version != st.version, st
	},
}

func testLinearizable(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Quiet, "r", Item{}))
	ctx := bounded(t)
	const clients, each = 6, 40
	start := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			known := uint64(1)
			for i := range each {
				in := registerInput{read: rand.IntN(2) == 0, version: known, value: client*each + i + 1}
				call := time.Since(start).Nanoseconds()
				out, err := in.apply(func(fn func(store.Reader) error) error { return s.View(ctx, fn) },
					func(fn func(store.Tx) error) error { _, err := s.Update(ctx, model.Credential, fn); return err })
				if err != nil {
					t.Error(err)
					return
				}
				if in.read || out.ok {
					known = out.version
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: time.Since(start).Nanoseconds()})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if got := porcupine.CheckOperationsTimeout(register, history, deadline); got != porcupine.Ok {
		t.Errorf("the history of %d operations is %s", len(history), got)
	}
}

func (in registerInput) apply(view func(func(store.Reader) error) error, update func(func(store.Tx) error) error) (out registerOutput, err error) {
	if in.read {
		err = view(func(r store.Reader) error {
			got, err := r.Get(Quiet, "s", "r")
			if err == nil {
				out = registerOutput{ok: true, version: got.Version, value: got.Spec.(*Item).N}
			}
			return err
		})
		return out, err
	}
	err = update(func(tx store.Tx) error {
		got, err := tx.Update(res(Quiet, "r", Item{N: in.value}), in.version)
		if err == nil {
			out = registerOutput{ok: true, version: got.Version, value: in.value}
		}
		return err
	})
	if fault.Is(err, fault.Conflict) {
		return registerOutput{}, nil
	}
	return out, err
}

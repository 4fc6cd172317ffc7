package revoke

import (
	"context"
	"errors"
)

// A write that got no answer may be carried out at any time as long as its server lives: a
// stalled connection delivers what it holds. A tombstone or a clock that arrives late only
// costs look-ups. A record that arrives late must not count, and a floor that arrives late
// must not lower a newer floor. Both carry the epoch in which they were written, and count
// in no other epoch. So a new epoch is drawn after such a write. A process that was killed
// leaves this to the next process; see [keeper.load].

// write does all writes to Redis of this package, except those of the clock.
func (k *keeper) write(ctx context.Context, cells []cell) error {
	for i := range cells {
		if cells[i].is == isMembers {
			k.r.isWritten(cells[i].of)
		}
	}
	err := k.remote.write(ctx, k.kept(cells))
	if err == nil || errors.Is(err, errRefused) {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range cells {
		if cells[i].is != isTombstone {
			k.doubt = "a write may still be carried out"
		}
	}
	return err
}

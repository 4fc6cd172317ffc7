package revoke

import (
	"context"
	"errors"
)

// A write that got no answer may be carried out at any time as long as its server
// lives: a frozen connection delivers what it holds. A tombstone or a clock that
// comes late only costs look-ups. A record that comes late must not count, and a floor
// that comes late must not lower one that was written since. Both carry the epoch that
// they were written in, and count in no other one: so a new one is drawn. A process
// that was killed leaves that to the next one; see [keeper.load].

// write is the only way in which this package writes to Redis, but for the clock.
func (k *keeper) write(ctx context.Context, cells []cell) error {
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

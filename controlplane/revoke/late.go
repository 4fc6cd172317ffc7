package revoke

import (
	"context"
	"errors"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// A write that got no answer may be carried out at any time as long as its server
// lives: a frozen connection delivers what it holds. A tombstone or a clock that
// comes late only costs look-ups. A record that comes late must not count, which a
// new epoch makes sure of. A floor that comes late may lower one that was written
// since, and void records would count again: an owner whose floor may come late and
// that is revoked once more gets no records in Redis any more.

// maxLate bounds the owners that are remembered; beyond it nobody is told apart.
const maxLate = 1 << 14

// late are owners, by the key of their floor.
type late struct {
	// floors holds whose floor may come late, and until when that matters.
	floors map[string]time.Time
	// barred holds who gets no records, and until when.
	barred map[string]time.Time
}

// write is the only way in which this package writes to Redis.
func (k *keeper) write(ctx context.Context, cells []cell) error {
	err := k.remote.write(ctx, cells)
	if err == nil || errors.Is(err, errRefused) {
		return err
	}
	until := k.r.o.Now().Add(contract.RecordLife + expiryMargin)
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range cells {
		switch cells[i].is {
		case isRecord:
			k.doubtful = true
		case isFloor:
			k.doubtful = true
			note(&k.late.floors, cells[i].key, until)
		case isTombstone, isClock:
		}
	}
	return err
}

// lowered reports whether a floor that is about to be written may be lowered
// afterwards, and bars its owner. Then everything written so far is void.
func (k *keeper) lowered(entries []entry) (some bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.r.o.Now()
	for i := range entries {
		key, owner := entries[i].floorKey()
		if !owner {
			continue
		}
		if until, ok := k.late.floors[key]; ok && now.Before(until) {
			note(&k.late.barred, key, now.Add(contract.RecordLife+expiryMargin))
			k.doubtful, some = true, true
		}
	}
	return some
}

// barredOwner reports whether an owner gets no records.
func (k *keeper) barredOwner(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	until, ok := k.late.barred[key]
	return len(k.late.barred) >= maxLate || (ok && k.r.o.Now().Before(until))
}

// note remembers a key, and makes room by dropping those whose time is over.
func note(m *map[string]time.Time, key string, until time.Time) {
	if *m == nil {
		*m = map[string]time.Time{}
	}
	if len(*m) >= maxLate {
		for k, end := range *m {
			if end.Before(until.Add(-contract.RecordLife)) {
				delete(*m, k)
			}
		}
	}
	(*m)[key] = until
}

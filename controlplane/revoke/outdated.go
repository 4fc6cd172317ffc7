package revoke

import (
	"github.com/meshgate/meshgate/filter/contract"
)

// readCells are the cells that a refill writes, as they were read.
type readCells struct {
	refill
	cells []cell
}

// moment is when cells were read: nothing that was published by then is missing in them.
type moment struct {
	at    contract.Position
	epoch contract.Epoch
}

// moment returns the present one. What is committed but not yet published may be missing in
// what is read from now on, and is published later.
func (k *keeper) moment() moment {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	return moment{k.r.history.at, k.epoch()}
}

// current returns the cells that may be written, of those that were read since a moment, and
// the refills whose cells may not: something was published about one of their keys since, or
// Redis is not in order, or counts under another epoch. A cell that was read before would
// undo what was published, so these are read anew. The caller holds turn.
func (k *keeper) current(read []readCells, since moment) (cells []cell, outdated []refill) {
	now := k.moment()
	changed, all := k.publishedSince(since.at)
	all = all || now.epoch != since.epoch || !k.isReady()
	for i := range read {
		if all || touches(read[i].cells, changed) {
			outdated = append(outdated, read[i].refill)
			continue
		}
		cells = append(cells, read[i].cells...)
	}
	return cells, outdated
}

// publishedSince returns the keys about which something was published behind a position. all
// says that it may be about any key: the log does not hold everything any more.
func (k *keeper) publishedSince(at contract.Position) (keys map[string]bool, all bool) {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	entries := k.r.history.after(at)
	keys = make(map[string]bool, len(entries))
	for i := range entries {
		keys[entries[i].redisKey()] = true
	}
	return keys, k.r.history.dropped > at
}

// redisKey is the key in Redis that an entry is about.
func (e *entry) redisKey() string {
	if e.inv.Subject == subjectScope {
		return contract.RedisMembersKey(e.inv.ID)
	}
	if key, owner := e.floorKey(); owner {
		return key
	}
	return contract.RedisRecordKey(e.scope, e.inv.Token)
}

func touches(cells []cell, keys map[string]bool) bool {
	for i := range cells {
		if keys[cells[i].key] {
			return true
		}
	}
	return false
}

package memstore

import (
	"fmt"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

func numberKey(n uint64) string { return fmt.Sprintf("%020d", n) }

// Kept implements engine.Records.
func (s *state) Kept() (uint64, error) { return s.recorded, nil }

// Keep implements engine.Records.
func (s *state) Keep(r store.ChangeRecord) error {
	key, of := numberKey(r.Number), &s.budgets[r.Budget()]
	s.records, s.recorded = s.records.with(key, &r), r.Number
	of.records, of.room = of.records.with(key, &r), of.room+1
	return nil
}

// Room implements engine.Records.
func (s *state) Room(b store.Budget) (int, error) { return s.budgets[b].room, nil }

// Eldest implements engine.Records.
func (s *state) Eldest(b store.Budget, n int) (list []store.ChangeRecord, _ error) {
	s.budgets[b].records.ascend("", func(_ string, r *store.ChangeRecord) bool {
		list = append(list, *r)
		return len(list) < n
	})
	return list, nil
}

// Forget implements engine.Records.
func (s *state) Forget(b store.Budget, number, since uint64) error {
	of := &s.budgets[b]
	var keys []string
	of.records.ascend("", func(key string, r *store.ChangeRecord) bool {
		if r.Number <= number {
			keys = append(keys, key)
		}
		return r.Number < number
	})
	for _, key := range keys {
		s.records, of.records = s.records.without(key), of.records.without(key)
	}
	of.room, of.since = of.room-len(keys), since
	return nil
}

// Since implements engine.Records.
func (s *state) Since(b store.Budget) (uint64, error) { return s.budgets[b].since, nil }

// Select implements engine.Records.
func (s *state) Select(q store.RecordQuery) (list []store.ChangeRecord, _ error) {
	take := func(_ string, r *store.ChangeRecord) bool {
		if selects(q, r) {
			list = append(list, *r)
		}
		return q.Limit == 0 || len(list) < q.Limit
	}
	switch {
	case q.Oldest:
		s.records.ascend(numberKey(q.After+1), take)
	case q.After != 0:
		s.records.descend(numberKey(q.After-1), take)
	default:
		s.records.descend(numberKey(s.recorded), take)
	}
	return list, nil
}

// Tally implements engine.Records.
func (s *state) Tally(q store.RecordQuery) (n int, _ error) {
	s.records.ascend("", func(_ string, r *store.ChangeRecord) bool {
		if selects(q, r) {
			n++
		}
		return true
	})
	return n, nil
}

// by reports whether a query selects what an actor did.
func by(q store.RecordQuery, who model.Actor) bool {
	if q.User != "" && who.Kind == model.ActorUser && who.Name == q.User {
		return true
	}
	return (q.Actor == "" || q.Actor == who.Name) && (q.ActorKind == "" || q.ActorKind == who.Kind)
}

// selects reports whether a query selects a record, apart from the start of its page.
func selects(q store.RecordQuery, r *store.ChangeRecord) bool {
	return (q.WithFleeting() || r.Budget() != store.OfTokens) &&
		(q.Since == nil || r.Previous >= *q.Since) &&
		(q.Kind == "" || q.Kind == r.Key.Kind) && (q.Without == "" || q.Without != r.Key.Kind) &&
		(q.Scope == "" || q.Scope == r.Key.Scope) &&
		(q.Scoping == nil || *q.Scoping == r.Scoping) &&
		by(q, r.Actor)
}

package memstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/internal/engine"
)

// state is everything the store holds at one revision. Published states are
// never changed; a transaction works on its own copy.
type state struct {
	revision uint64
	// order is that of the newest row.
	order uint64
	// rows by (kind, scope) and name.
	rows tree[*model.Resource]
	// unique holds the key in rows by (kind, scope, index, value).
	unique tree[string]
	// lists holds the key in rows by (kind, scope, index, value) and name, or by (kind, scope,
	// reference, scope and name of the target) and name.
	lists tree[string]
	// referrers by (kind, scope, name of the target) and kind, scope, name and reference.
	referrers tree[referrer]
	// expiries holds the key in rows by time and that key.
	expiries tree[string]
	// records by number; recorded is that of the newest.
	records  tree[*store.ChangeRecord]
	recorded uint64
	// budgets are the same records by budget. Unlike a map the array is copied with the
	// state.
	budgets [store.NumBudgets]budget
}

// budget holds the records of a [store.Budget].
type budget struct {
	records tree[*store.ChangeRecord]
	room    int
	// since is the least revision after which all are there.
	since uint64
}

type referrer struct {
	row      string
	onDelete model.OnDelete
}

// path builds a prefix from parts of any content, so that no two lists of
// parts share one and none is a prefix of another of the same length.
func path(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strconv.Itoa(len(p)))
		b.WriteByte(':')
		b.WriteString(p)
	}
	return b.String()
}

func rowKey(k model.Key) string { return path(k.Kind, k.Scope) + k.Name }

func expiryKey(at int64, row string) string { return fmt.Sprintf("%020d", at) + row }

// Revision implements engine.Rows.
func (s *state) Revision() uint64 { return s.revision }

// Get implements engine.Rows.
func (s *state) Get(key model.Key) (*model.Resource, error) {
	r, _ := s.rows.get(rowKey(key))
	return r, nil
}

// Has implements engine.Rows.
func (s *state) Has(key model.Key, now int64) (bool, error) {
	r, ok := s.rows.get(rowKey(key))
	return ok && live(r, now), nil
}

// Find implements engine.Rows.
func (s *state) Find(k *model.Kind, scope string, e engine.Entry) (*model.Resource, error) {
	row, ok := s.unique.get(path(k.Name, scope, e.Index, e.Value))
	if !ok {
		return nil, nil //nolint:nilnil // nil is what Rows.Find says for nothing
	}
	r, _ := s.rows.get(row)
	return r, nil
}

// each visits the live rows of a query after a name, in order of names.
func (s *state) each(k *model.Kind, q store.Query, after string, now int64, visit func(*model.Resource) bool) {
	take := func(r *model.Resource) bool { return !live(r, now) || !strings.Contains(r.Name, q.Part) || visit(r) }
	if q.Index == "" {
		prefix := path(k.Name, q.Scope)
		s.rows.ascend(prefix+after, func(key string, r *model.Resource) bool {
			return strings.HasPrefix(key, prefix) && (key == prefix+after || take(r))
		})
		return
	}
	prefix := path(k.Name, q.Scope, q.Index, q.Value)
	if slices.ContainsFunc(k.Refs, func(ref model.Ref) bool { return ref.Name == q.Index }) {
		prefix = path(k.Name, q.Scope, q.Index, q.Target(), q.Value)
	}
	s.lists.ascend(prefix+after, func(key string, row string) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		r, _ := s.rows.get(row)
		return key == prefix+after || take(r)
	})
}

// Named implements engine.Rows.
func (s *state) Named(k *model.Kind, scope string, names []string, now int64) ([]*model.Resource, error) {
	var list []*model.Resource
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if r, ok := s.rows.get(rowKey(model.Key{Kind: k.Name, Scope: scope, Name: name})); ok && live(r, now) {
			list = append(list, r)
		}
	}
	return list, nil
}

// List implements engine.Rows.
func (s *state) List(k *model.Kind, q store.Query, now int64) ([]*model.Resource, error) {
	var list []*model.Resource
	skip := q.Skip
	s.each(k, q, q.After, now, func(r *model.Resource) bool {
		if skip > 0 {
			skip--
			return true
		}
		list = append(list, r)
		return q.Limit == 0 || len(list) < q.Limit
	})
	return list, nil
}

// Count implements engine.Rows.
func (s *state) Count(k *model.Kind, q store.Query, now int64) (int, error) {
	n := 0
	s.each(k, q, "", now, func(*model.Resource) bool { n++; return true })
	return n, nil
}

// Referrers implements engine.Rows.
func (s *state) Referrers(to model.Key) ([]engine.Referrer, error) {
	var list []engine.Referrer
	prefix := path(to.Kind, to.Scope, to.Name)
	s.referrers.ascend(prefix, func(key string, ref referrer) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		r, _ := s.rows.get(ref.row)
		list = append(list, engine.Referrer{Resource: r, OnDelete: ref.onDelete})
		return true
	})
	return list, nil
}

// Targets implements engine.Rows. Nothing in memory is unreadable.
func (*state) Targets(model.Key) ([]model.Key, error) { return nil, nil }

// Expired implements engine.Rows.
func (s *state) Expired(now int64, limit int) ([]*model.Resource, error) {
	var list []*model.Resource
	end := expiryKey(now+1, "")
	s.expiries.ascend("", func(key string, row string) bool {
		if key >= end || len(list) == limit {
			return false
		}
		r, _ := s.rows.get(row)
		list = append(list, r)
		return true
	})
	return list, nil
}

// Insert implements engine.Rows.
func (s *state) Insert(row engine.Row) error {
	s.order++
	row.Resource.Order = s.order
	return s.put(row)
}

// put adds a row that has its order.
func (s *state) put(row engine.Row) error {
	key := rowKey(row.Resource.Key())
	s.rows = s.rows.with(key, row.Resource)
	if row.Expires != 0 {
		s.expiries = s.expiries.with(expiryKey(row.Expires, key), key)
	}
	s.index(row, key)
	return nil
}

// Add implements engine.Rows.
func (s *state) Add(row engine.Row) (bool, error) {
	k := row.Resource.Key()
	if _, taken := s.rows.get(rowKey(k)); taken {
		return false, nil
	}
	for _, e := range row.Unique {
		if _, taken := s.unique.get(path(k.Kind, k.Scope, e.Index, e.Value)); taken {
			return false, nil
		}
	}
	return true, s.Insert(row)
}

// Replace implements engine.Rows.
func (s *state) Replace(old, row engine.Row, _ bool) error {
	if err := s.Remove(old); err != nil {
		return err
	}
	return s.put(row)
}

// Remove implements engine.Rows.
func (s *state) Remove(row engine.Row) error {
	k := row.Resource.Key()
	key := rowKey(k)
	s.rows = s.rows.without(key)
	if row.Expires != 0 {
		s.expiries = s.expiries.without(expiryKey(row.Expires, key))
	}
	for _, e := range row.Unique {
		s.unique = s.unique.without(path(k.Kind, k.Scope, e.Index, e.Value))
	}
	for _, e := range row.Lists {
		s.lists = s.lists.without(path(k.Kind, k.Scope, e.Index, e.Value) + k.Name)
	}
	for _, t := range row.Refs {
		s.lists = s.lists.without(path(k.Kind, k.Scope, t.Ref, t.Scope, t.Name) + k.Name)
		s.referrers = s.referrers.without(referrerKey(k, t))
	}
	return nil
}

func (s *state) index(row engine.Row, key string) {
	k := row.Resource.Key()
	for _, e := range row.Unique {
		s.unique = s.unique.with(path(k.Kind, k.Scope, e.Index, e.Value), key)
	}
	for _, e := range row.Lists {
		s.lists = s.lists.with(path(k.Kind, k.Scope, e.Index, e.Value)+k.Name, key)
	}
	for _, t := range row.Refs {
		s.lists = s.lists.with(path(k.Kind, k.Scope, t.Ref, t.Scope, t.Name)+k.Name, key)
		s.referrers = s.referrers.with(referrerKey(k, t), referrer{row: key, onDelete: t.OnDelete})
	}
}

func referrerKey(from model.Key, t engine.Reference) string {
	return path(t.Kind, t.Scope, t.Name) + strings.Join([]string{from.Kind, from.Scope, from.Name, t.Ref}, "\x00")
}

// Restamp has nothing to do: the state holds the very resource that changed,
// and nobody else has seen it yet.
func (s *state) Restamp(*model.Resource) error { return nil }

func live(r *model.Resource, now int64) bool {
	at := engine.Expiry(r)
	return at == 0 || at > now
}

package engine

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Tx implements [store.Tx]. It is used by one goroutine at a time and ends with
// [Tx.Finish] or [Tx.Abandon].
type Tx struct {
	*Reader
	now     time.Time
	class   model.Class
	changes []store.Change
	events  []store.Event
	records []store.ChangeRecord
	// announced is the newest event of each key in this commit.
	announced map[model.Key]store.Op
	earliest  int64
	strict    bool
	broken    error
}

// NewTx returns a transaction over rows. class is what the caller of Update
// declared. Rows are stamped with now, and have ended up to past.
func NewTx(rows Rows, kinds map[string]*model.Kind, class model.Class, now, past time.Time) *Tx {
	return &Tx{Reader: NewReader(rows, kinds, past), now: now, class: class, announced: make(map[model.Key]store.Op)}
}

// CheckClass refuses a class that is none of a transaction's.
func CheckClass(class model.Class) error {
	if class != model.Config && class != model.Credential {
		return fault.New(fault.Internal, "transactions are of class config or credential")
	}
	return nil
}

// Create implements [store.Tx].
func (t *Tx) Create(r *model.Resource) (*model.Resource, error) {
	if err := t.writable(r); err != nil {
		return nil, err
	}
	row, refused := t.compose(r, nil)
	if refused == nil {
		switch added, err := t.add(row); {
		case err != nil:
			return nil, err
		case added:
			return row.Resource, nil
		}
	}
	old, err := t.rows.Get(r.Key())
	switch {
	case err != nil:
		return nil, t.fail(err)
	case old != nil && !expired(old, t.millis):
		return nil, fault.New(fault.Exists, "%s %q already exists", r.Kind.Name, r.Name)
	case old != nil:
		if err := t.evict(old); err != nil {
			return nil, err
		}
	}
	if refused != nil {
		return nil, refused
	}
	if err := t.check(row, Row{}); err != nil {
		return nil, err
	}
	t.record(store.Change{Op: store.Created, New: row.Resource})
	row.Resource.Revision = t.revision()
	t.watchExpiry(row.Expires)
	if err := t.rows.Insert(row); err != nil {
		return nil, t.fail(err)
	}
	return row.Resource, nil
}

// add stores a new row in one go, as nearly all can be: what a row takes for itself is
// mostly random. It reports whether it did. If not, nothing was written, and who reads what
// stands in the way finds out what it is.
func (t *Tx) add(row Row) (added bool, err error) {
	for _, to := range row.Refs {
		found, err := t.rows.Has(to.To(), t.millis)
		if err != nil {
			return false, t.fail(err)
		}
		if !found {
			return false, nil
		}
	}
	r := row.Resource
	if r.Revision = t.revision(); announces(r.Kind, store.Created, false) {
		r.Revision = t.rows.Revision() + 1
	}
	if added, err = t.rows.Add(row); err != nil {
		return false, t.fail(err)
	}
	if added {
		t.record(store.Change{Op: store.Created, New: r})
		t.watchExpiry(row.Expires)
	}
	return added, nil
}

// Update implements [store.Tx].
func (t *Tx) Update(r *model.Resource, version uint64) (*model.Resource, error) {
	if err := t.writable(r); err != nil {
		return nil, err
	}
	old, err := t.expect(r.Kind, r.Scope, r.Name, version)
	if err != nil {
		return nil, err
	}
	row, err := t.compose(r, old)
	if err != nil {
		return nil, err
	}
	before := Describe(old)
	named, err := t.guarded(old, row.Resource)
	switch {
	case err != nil:
		return nil, err
	case len(named) > 0:
		return nil, named[0].fault()
	}
	if err := t.check(row, before); err != nil {
		return nil, err
	}
	t.record(store.Change{Op: store.Updated, Old: old, New: row.Resource})
	row.Resource.Revision = t.revision()
	t.watchExpiry(row.Expires)
	if err := t.rows.Replace(before, row, !sameIndexes(before, row)); err != nil {
		return nil, t.fail(err)
	}
	return row.Resource, nil
}

// Announce implements [store.Tx]. It adds nothing if the newest event of the
// key in this commit already says so.
func (t *Tx) Announce(key model.Key, op store.Op) {
	if t.ended || t.announced[key] == op {
		return
	}
	t.announced[key] = op
	t.events = append(t.events, store.Event{Key: key, Op: op})
}

// Announced implements [store.Tx].
func (t *Tx) Announced(key model.Key) bool {
	_, ok := t.announced[key]
	return ok
}

// Changes implements [store.Tx].
func (t *Tx) Changes() []store.Change { return t.changes[:len(t.changes):len(t.changes)] }

// writable refuses resources that this transaction may not write at all.
func (t *Tx) writable(r *model.Resource) error {
	if err := t.usable(r.Kind); err != nil {
		return err
	}
	switch {
	case t.broken != nil:
		return t.broken
	case r.Kind.Class == model.Config && t.class != model.Config:
		return fault.New(fault.Internal, "kind %s is of class config, the transaction is not", r.Kind.Name)
	case r.Name == "":
		return fault.New(fault.Internal, "a %s without a name", r.Kind.Name)
	}
	t.strict = t.strict || r.Kind.Durable
	return nil
}

// expect returns the live row of a key if it has the version; 0 is any.
func (t *Tx) expect(k *model.Kind, scope, name string, version uint64) (*model.Resource, error) {
	old, err := t.rows.Get(model.Key{Kind: k.Name, Scope: scope, Name: name})
	return t.expected(old, err, k, name, version)
}

// expected is what expect makes of what was read.
func (t *Tx) expected(old *model.Resource, err error, k *model.Kind, name string, version uint64) (*model.Resource, error) {
	switch {
	case err != nil:
		return nil, t.fail(err)
	case old == nil || expired(old, t.millis):
		return nil, absent(k, name)
	case version != 0 && version != old.Version:
		return nil, fault.New(fault.Conflict, "%s %q has changed in the meantime", k.Name, name)
	}
	return old, nil
}

// compose builds the row to store. The spec goes through its JSON, so that no
// caller shares memory with the store and what is read now is what would be
// read after a restart.
func (t *Tx) compose(r *model.Resource, old *model.Resource) (Row, error) {
	spec, err := json.Marshal(r.Spec)
	if err != nil {
		return Row{}, fault.Wrap(fault.Internal, err, "the spec of %s %q cannot be encoded", r.Kind.Name, r.Name)
	}
	next := &model.Resource{
		Kind: r.Kind, Scope: r.Scope, Name: r.Name, Version: 1,
		Created: instant(r.Created), Modified: instant(t.now),
	}
	if old != nil {
		next.Version = old.Version + 1
		next.CreatedRevision, next.Order = old.CreatedRevision, old.Order
	} else {
		next.CreatedRevision = t.rows.Revision() + 1
	}
	switch {
	case !r.Created.IsZero():
	case old != nil:
		next.Created = old.Created
	default:
		next.Created = next.Modified
	}
	if next.Spec, err = Decode(r.Kind, spec); err != nil {
		return Row{}, fault.Wrap(fault.Internal, err, "the spec of %s %q cannot be read back", r.Kind.Name, r.Name)
	}
	row := Describe(next)
	row.Spec = spec
	if old != nil {
		next.Taken = t.taken(old, row)
	}
	return row, nil
}

// taken says since when a row has its unique values that it has not had from the start. A
// value that was given up and comes back is taken anew: another row may have had it.
func (t *Tx) taken(old *model.Resource, row Row) map[string]uint64 {
	before := Describe(old).Unique
	var taken map[string]uint64
	for _, e := range row.Unique {
		at, known := old.Taken[e.Index]
		if !slices.Contains(before, e) {
			at, known = t.rows.Revision()+1, true
		}
		if !known {
			continue
		}
		if taken == nil {
			taken = map[string]uint64{}
		}
		taken[e.Index] = at
	}
	return taken
}

// Decode reads the JSON of a spec.
func Decode(k *model.Kind, spec []byte) (any, error) {
	v := k.New()
	if p, ok := v.(model.Plain); ok && p.ReadPlain(spec) {
		return v, nil
	}
	if err := json.Unmarshal(spec, v); err != nil {
		return nil, err
	}
	return v, nil
}

// check refuses a row whose new unique values are taken or whose new
// references point at nothing. Holders that have expired make room.
func (t *Tx) check(row, before Row) error {
	r := row.Resource
	for _, e := range row.Unique {
		if slices.Contains(before.Unique, e) {
			continue
		}
		holder, err := t.rows.Find(r.Kind, r.Scope, e)
		switch {
		case err != nil:
			return t.fail(err)
		case holder == nil:
		case expired(holder, t.millis):
			if err := t.evict(holder); err != nil {
				return err
			}
		default:
			return fault.New(fault.Unique, "another %s has the same %s", r.Kind.Name, e.Index).
				With(store.UniqueViolation{Kind: r.Kind, Index: e.Index, Value: e.Value})
		}
	}
	for _, to := range row.Refs {
		if slices.Contains(before.Refs, to) {
			continue
		}
		if err := t.present(r, to); err != nil {
			return err
		}
	}
	return nil
}

// present refuses a reference to nothing.
func (t *Tx) present(r *model.Resource, to Reference) error {
	key := to.To()
	found, err := t.rows.Has(key, t.millis)
	if err != nil {
		return t.fail(err)
	}
	if found {
		return nil
	}
	return fault.New(fault.Dangling, "the %s %q of this %s does not exist", to.Kind, to.Name, r.Kind.Name).
		With(store.DanglingReference{Kind: r.Kind, Ref: to.Ref, To: key})
}

// fail breaks the transaction: its rows may be half written.
func (t *Tx) fail(err error) error {
	t.broken = unexpected(err)
	return t.broken
}

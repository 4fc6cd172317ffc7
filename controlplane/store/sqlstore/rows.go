package sqlstore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/internal/engine"
)

// codec turns specs and secret index values into what is stored.
type codec struct {
	kinds map[string]*model.Kind
	// mortal are the names of the kinds that expire, as a JSON list. A row of a kind
	// that is not known is nobody's to remove: it is passed over, and keeps no other
	// one waiting.
	mortal  string
	sealing atomic.Pointer[sealing]
	// page is how many rows are sealed anew in one transaction.
	page int
}

// rows implements [engine.Rows] on a session with an open transaction.
type rows struct {
	*session
	*codec
	revision uint64
	// present holds keys of rows that are there and never end by themselves. It is nil unless
	// nobody else writes, and forgotten when something is undone.
	present map[model.Key]struct{}
	// busy are the rows of busy kinds that are in memory.
	busy
}

// maxPresent bounds the keys in present: owners of what is created all the time.
const maxPresent = 4096

const columns = `r.id, r.kind, r.scope, r.name, r.version, r.revision, r.created, r.modified, r.expires, r.sealed, r.spec, r.created_revision, r.taken`

// same joins an entry of refs or lists with its resource. SQLite gives the id of a row that is
// gone to another row. So the id alone would lead an entry that was left behind to that one.
// The plus keeps SQLite from looking the row up by its name instead of its id.
const same = `r.id = x.id AND +r.kind = x.kind AND +r.scope = x.scope AND +r.name = x.name`

// record is one row of the table resources.
type record struct {
	id, version, revision, created, modified, expires, sealed, createdRevision int64
	kind, scope, name                                                          string
	spec, taken                                                                []byte
}

func (r *record) dest() []any {
	return []any{&r.id, &r.kind, &r.scope, &r.name, &r.version, &r.revision, &r.created, &r.modified, &r.expires, &r.sealed, &r.spec, &r.createdRevision, &r.taken}
}

// place binds a sealed spec to its row: it cannot be moved to another one.
func place(kind, scope, name string) []byte {
	return []byte(strings.Join([]string{strconv.Quote(kind), strconv.Quote(scope), strconv.Quote(name)}, "/"))
}

// decode fails with [store.ErrUnreadable], and says which row that is if its kind is
// known.
func (c *codec) decode(r *record) (*model.Resource, error) {
	k := c.kinds[r.kind]
	if k == nil {
		return nil, fmt.Errorf("%w: the database holds a resource of the unknown kind %q", store.ErrUnreadable, r.kind)
	}
	res := &model.Resource{
		Kind: k, Scope: r.scope, Name: r.name, Version: uint64(r.version), Revision: uint64(r.revision), //nolint:gosec // written from uint64
		Created: time.UnixMicro(r.created).UTC(), Modified: time.UnixMicro(r.modified).UTC(),
		CreatedRevision: uint64(r.createdRevision), //nolint:gosec // written from uint64
		Order:           uint64(r.id),              //nolint:gosec // SQLite gives the next after the greatest, which is positive
	}
	if len(r.taken) > 0 {
		if err := json.Unmarshal(r.taken, &res.Taken); err != nil {
			return nil, store.Unreadable(res, r.expires, fmt.Errorf("decoding since when %s %q has its values: %w", r.kind, r.name, err))
		}
	}
	spec, err := c.spec(k, r)
	if err != nil {
		return nil, store.Unreadable(res, r.expires, err)
	}
	res.Spec = spec
	return res, nil
}

// spec decodes the spec of a row.
func (c *codec) spec(k *model.Kind, r *record) (any, error) {
	spec := r.spec
	if r.sealed != 0 {
		plain, err := c.sealing.Load().Open(spec, place(r.kind, r.scope, r.name))
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", r.kind, r.name, err)
		}
		spec = plain
	}
	v, err := engine.Decode(k, spec)
	if err != nil {
		return nil, fmt.Errorf("decoding %s %q: %w", r.kind, r.name, err)
	}
	return v, nil
}

// lenient is decode for those who remove rows and need not know what is in them.
func (c *codec) lenient(r *record) (*model.Resource, error) {
	res, err := c.decode(r)
	if bare := store.UnreadIn(err); bare != nil {
		return bare, nil
	}
	return res, err
}

// encode returns the stored form of a spec.
func (c *codec) encode(row engine.Row) (spec []byte, sealed int, err error) {
	r := row.Resource
	if !r.Kind.Sealed {
		return row.Spec, 0, nil
	}
	spec, err = c.sealing.Load().Seal(row.Spec, place(r.Kind.Name, r.Scope, r.Name))
	return spec, 1, err
}

// takenOf is the stored form of [model.Resource.Taken]: NULL or a JSON object.
func takenOf(r *model.Resource) (any, error) {
	if len(r.Taken) == 0 {
		return nil, nil //nolint:nilnil // nil is NULL
	}
	return json.Marshal(r.Taken)
}

// value returns the stored form of a unique value.
func (c *codec) value(k *model.Kind, e engine.Entry) string {
	if !e.Secret {
		return e.Value
	}
	return c.sealing.Load().Digest(label(k, e.Index), e.Value)
}

// Revision implements engine.Rows.
func (t *rows) Revision() uint64 { return t.revision }

// one returns the row of a query, nil if there is none.
func (t *rows) one(query string, args ...any) (*model.Resource, error) {
	var r record
	ok, err := t.row(query, args, r.dest()...)
	if err != nil || !ok {
		return nil, err
	}
	return t.decode(&r)
}

// Get implements engine.Rows.
func (t *rows) Get(key model.Key) (*model.Resource, error) {
	if res, known := t.busy.get(key); known {
		return res, nil
	}
	res, err := t.one(`SELECT `+columns+` FROM resources r WHERE r.kind = ? AND r.scope = ? AND r.name = ?`, key.Kind, key.Scope, key.Name)
	if k := t.kinds[key.Kind]; err == nil && k != nil {
		t.note(k, key, res)
	}
	return res, err
}

// forget forgets what was known of rows.
func (t *rows) forget() {
	clear(t.present)
	t.busy.forget()
}

// Has implements engine.Rows.
func (t *rows) Has(key model.Key, now int64) (bool, error) {
	if _, known := t.present[key]; known {
		return true, nil
	}
	var expires int64
	found, err := t.row(`SELECT expires FROM resources WHERE kind = ? AND scope = ? AND name = ? AND (expires = 0 OR +expires > ?)`,
		[]any{key.Kind, key.Scope, key.Name, now}, &expires)
	if found && expires == 0 && t.present != nil {
		if len(t.present) >= maxPresent {
			clear(t.present)
		}
		t.present[key] = struct{}{}
	}
	return found, err
}

// Find implements engine.Rows.
func (t *rows) Find(k *model.Kind, scope string, e engine.Entry) (*model.Resource, error) {
	if err := t.catchUp(); err != nil {
		return nil, err
	}
	values := []string{e.Value}
	if e.Secret {
		values = t.digests(label(k, e.Index), e.Value)
	}
	for _, value := range values {
		res, err := t.one(`SELECT `+columns+` FROM uniques u CROSS JOIN resources r ON r.id = u.id AND +r.kind = u.kind AND +r.scope = u.scope
			WHERE u.kind = ? AND u.scope = ? AND u.field = ? AND u.value = ?`, k.Name, scope, e.Index, value)
		if res != nil || err != nil {
			return res, err
		}
	}
	return nil, nil
}

// Named implements engine.Rows.
func (t *rows) Named(k *model.Kind, scope string, names []string, now int64) ([]*model.Resource, error) {
	if err := t.catchUp(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(names)
	if err != nil {
		return nil, err
	}
	from, order, args := index(k, store.Query{Scope: scope}, now)
	return t.all(t.decode, `SELECT `+columns+from+` AND r.name IN (SELECT value FROM json_each(?)) ORDER BY `+order, append(args, string(text))...)
}

// source returns FROM and WHERE of a query, without After, Skip and Limit, and
// the column that orders it.
func source(k *model.Kind, q store.Query, now int64) (from, order string, args []any) {
	from, order, args = index(k, q, now)
	if q.Part != "" {
		from += ` AND instr(` + order + `, ?) > 0`
		args = append(args, q.Part)
	}
	return from, order, args
}

// index is source for what the index of a query finds.
func index(k *model.Kind, q store.Query, now int64) (from, order string, args []any) {
	// The plus keeps SQLite from preparing the statement anew for each time, in case the index of
	// what expires fits.
	const live = ` AND (r.expires = 0 OR +r.expires > ?)`
	if q.Index == "" {
		return ` FROM resources r WHERE r.kind = ? AND r.scope = ?` + live, `r.name`, []any{k.Name, q.Scope, now}
	}
	for i := range k.Refs {
		if ref := &k.Refs[i]; ref.Name == q.Index {
			return ` FROM refs x CROSS JOIN resources r ON ` + same + `
				WHERE x.to_kind = ? AND x.to_scope = ? AND x.to_name = ? AND x.kind = ? AND x.field = ? AND x.scope = ?` + live,
				`x.name`, []any{ref.To, q.Target(), q.Value, k.Name, ref.Name, q.Scope, now}
		}
	}
	return ` FROM lists x CROSS JOIN resources r ON ` + same + `
		WHERE x.kind = ? AND x.scope = ? AND x.field = ? AND x.value = ?` + live,
		`x.name`, []any{k.Name, q.Scope, q.Index, q.Value, now}
}

// List implements engine.Rows.
func (t *rows) List(k *model.Kind, q store.Query, now int64) ([]*model.Resource, error) {
	if err := t.catchUp(); err != nil {
		return nil, err
	}
	from, order, args := source(k, q, now)
	limit := int64(-1)
	if q.Limit > 0 {
		limit = int64(q.Limit)
	}
	query := `SELECT ` + columns + from + ` AND ` + order + ` > ? ORDER BY ` + order + ` LIMIT ? OFFSET ?`
	return t.all(t.decode, query, append(args, q.After, limit, q.Skip)...)
}

func (t *rows) all(read func(*record) (*model.Resource, error), query string, args ...any) ([]*model.Resource, error) {
	var list []*model.Resource
	var r record
	err := t.each(query, args, func() error {
		res, err := read(&r)
		list = append(list, res)
		return err
	}, r.dest()...)
	return list, err
}

// Count implements engine.Rows.
func (t *rows) Count(k *model.Kind, q store.Query, now int64) (int, error) {
	from, _, args := source(k, q, now)
	var n int
	_, err := t.row(`SELECT count(*)`+from, args, &n)
	return n, err
}

// Referrers implements engine.Rows.
func (t *rows) Referrers(to model.Key) ([]engine.Referrer, error) {
	if err := t.catchUp(); err != nil {
		return nil, err
	}
	var list []engine.Referrer
	var r record
	var refuse bool
	err := t.each(`SELECT x.refuse, `+columns+` FROM refs x CROSS JOIN resources r ON `+same+`
		WHERE x.to_kind = ? AND x.to_scope = ? AND x.to_name = ? ORDER BY x.kind, x.scope, x.name, x.field`,
		[]any{to.Kind, to.Scope, to.Name}, func() error {
			res, err := t.lenient(&r)
			onDelete := model.Cascade
			if refuse {
				onDelete = model.Refuse
			}
			list = append(list, engine.Referrer{Resource: res, OnDelete: onDelete})
			return err
		}, append([]any{&refuse}, r.dest()...)...)
	return list, err
}

// Targets implements engine.Rows.
func (t *rows) Targets(of model.Key) ([]model.Key, error) {
	_, l, _, err := t.entriesOf(of)
	return l.targets(), err
}

// Expired implements engine.Rows. The plus keeps SQLite from looking at all rows of a
// kind.
func (t *rows) Expired(now int64, limit int) ([]*model.Resource, error) {
	if err := t.catchUp(); err != nil {
		return nil, err
	}
	return t.all(t.lenient, `SELECT `+columns+` FROM resources r WHERE r.expires > 0 AND r.expires <= ? AND +r.kind IN (SELECT value FROM json_each(?))
		ORDER BY r.expires, r.id LIMIT ?`, now, t.mortal, limit)
}

// Insert implements engine.Rows.
func (t *rows) Insert(row engine.Row) error {
	added, err := t.put(row)
	if err == nil && !added {
		err = fmt.Errorf("something that %s %q has is another's", row.Resource.Kind.Name, row.Resource.Name)
	}
	return err
}

// Add implements engine.Rows. While there are digests of older keys, what is taken must be
// looked for.
func (t *rows) Add(row engine.Row) (bool, error) {
	if t.sealing.Load().mixed && slices.ContainsFunc(row.Unique, func(e engine.Entry) bool { return e.Secret }) {
		return false, nil
	}
	return t.put(row)
}

// put writes a row, or nothing if its key or a unique value is another's.
func (t *rows) put(row engine.Row) (bool, error) {
	r := row.Resource
	spec, sealed, err := t.encode(row)
	if err != nil {
		return false, err
	}
	l := t.listedOf(row)
	text, err := l.text()
	if err != nil {
		return false, err
	}
	id, added, err := t.insert(`INSERT INTO resources (kind, scope, name, version, revision, created, modified, expires, sealed, spec, created_revision, entries)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, r.Kind.Name, r.Scope, r.Name, r.Version, r.Revision,
		r.Created.UnixMicro(), r.Modified.UnixMicro(), row.Expires, sealed, spec, r.CreatedRevision, text)
	if err != nil || !added {
		return false, err
	}
	r.Order = uint64(id) //nolint:gosec // as in decode
	claimed, err := t.index(row, l, id)
	if err == nil && !claimed {
		err = t.remove(r.Key(), l, id)
	}
	if err == nil && claimed {
		t.busy.keep(r)
	}
	return claimed, err
}

// remove removes a resource and its index entries.
func (t *rows) remove(key model.Key, l listed, id int64) error {
	if err := t.unindex(key, l, id); err != nil {
		return err
	}
	_, err := t.exec(`DELETE FROM resources WHERE id = ?`, id)
	return err
}

// insert runs an INSERT that leaves out a row which is there, and returns the id of the new
// one.
func (t *rows) insert(query string, args ...any) (id int64, added bool, err error) {
	res, err := t.exec(query, args...)
	if err != nil {
		return 0, false, err
	}
	n, err := res.RowsAffected()
	if err == nil && n > 0 {
		id, err = res.LastInsertId()
	}
	return id, n > 0, err
}

// Replace implements engine.Rows.
func (t *rows) Replace(_, row engine.Row, reindex bool) error {
	if !reindex && t.busy.defers(row) {
		return nil
	}
	delete(t.late, row.Resource.Key())
	if err := t.replace(row); err != nil || !reindex {
		return err
	}
	return t.reindex(row)
}

// replace writes a row in the place of the one with its key, but for its index entries.
func (t *rows) replace(row engine.Row) error {
	r := row.Resource
	if row.Expires != 0 {
		delete(t.present, r.Key())
	}
	spec, sealed, err := t.encode(row)
	if err != nil {
		return err
	}
	taken, err := takenOf(r)
	if err != nil {
		return err
	}
	if _, err := t.exec(`UPDATE resources SET version = ?, revision = ?, created = ?, modified = ?, expires = ?, sealed = ?, spec = ?, taken = ?
		WHERE kind = ? AND scope = ? AND name = ?`, r.Version, r.Revision, r.Created.UnixMicro(),
		r.Modified.UnixMicro(), row.Expires, sealed, spec, taken, r.Kind.Name, r.Scope, r.Name); err != nil {
		return err
	}
	t.busy.keep(r)
	return nil
}

// Remove implements engine.Rows. What the row is said to have is not asked: nobody may know.
func (t *rows) Remove(row engine.Row) error {
	key := row.Resource.Key()
	delete(t.present, key)
	t.busy.drop(key)
	id, l, found, err := t.entriesOf(key)
	if err != nil || !found {
		return err
	}
	return t.remove(key, l, id)
}

// Restamp implements engine.Rows.
func (t *rows) Restamp(r *model.Resource) error {
	if late, ok := t.late[r.Key()]; ok && late.Resource == r {
		return nil // it is written with its revision
	}
	_, err := t.exec(`UPDATE resources SET revision = ? WHERE kind = ? AND scope = ? AND name = ? AND version = ?`,
		r.Revision, r.Kind.Name, r.Scope, r.Name, r.Version)
	return err
}

package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store/internal/engine"
)

// Resealer is implemented by stores whose secrets are encrypted. A rotation of the key has
// two parts, Adopt and Reseal. Each may be interrupted at any point and is then completed
// later. To open the store in between, all keys are needed.
type Resealer interface {
	// Adopt seals everything with another sealer from now on. That sealer must be able to
	// open what the present one has sealed. A start with that sealer has the same effect.
	Adopt(ctx context.Context, s Sealer) error
	// Reseal seals anew what older keys have sealed, in transactions of a few rows. It calls
	// progress, unless nil, after each of them. It returns when no row is left, or when the
	// rest cannot be read.
	Reseal(ctx context.Context, progress func(Resealing)) (Resealing, error)
	// Resealing returns how far resealing is.
	Resealing(ctx context.Context) (Resealing, error)
}

// Resealing says how far the change to another key is.
type Resealing struct {
	// Done is set when no row needs an older key.
	Done bool
	// Left is the number of rows that are still to be looked at. Unreadable is the number of
	// rows that could not be sealed anew; older keys cannot be dropped because of them.
	Left, Unreadable int
}

// sealing is the sealer in use. mixed is set while rows sealed with older keys may exist.
type sealing struct {
	Sealer
	mixed bool
}

// Names of meta rows. While rows of several keys may exist, there is a check for each key, so
// that nobody opens the database with only some of its keys.
const (
	metaCheck  = "key_check"
	metaReseal = "reseal"
)

// resealPage is the number of rows that one transaction seals anew; see [Options.page].
const resealPage = 100

// cursor says how far the change to the key To is; stored as JSON. Resources come first, then
// change records.
type cursor struct {
	To         string `json:"to"`
	Last       int64  `json:"last"`
	Unreadable int    `json:"unreadable,omitempty"`
	// Complete is set when all resources were looked at. Later ones are sealed with To.
	Complete bool `json:"complete,omitempty"`
	// LastChange and ChangesComplete do the same for change records.
	LastChange      int64 `json:"last_change,omitempty"`
	ChangesComplete bool  `json:"changes_complete,omitempty"`
}

// complete reports whether every row was looked at.
func (c *cursor) complete() bool { return c.Complete && c.ChangesComplete }

// checks reads the checks of the keys, by name. The sealer must be able to open each.
func checks(s *session, sealer Sealer) (sealed map[string][]byte, err error) {
	sealed = map[string][]byte{}
	var name string
	var value []byte
	err = s.each(`SELECT name, value FROM meta WHERE name = 'key_check' OR name LIKE 'key_check/%'`, nil, func() error {
		sealed[name] = append([]byte(nil), value...)
		return nil
	}, &name, &value)
	switch {
	case err != nil || len(sealed) == 0:
		return nil, err
	case sealer == nil:
		return nil, errors.New("it is encrypted, and there is no key")
	}
	for _, value := range sealed {
		if plain, err := sealer.Open(value, []byte(keyCheck)); err != nil || string(plain) != keyCheck {
			return nil, ErrKey
		}
	}
	return sealed, nil
}

// checkKey fails if the sealer lacks a key that the database was written with. It adopts the
// sealer's first key as the one that seals.
func checkKey(s *session, c *codec) error {
	now := c.sealing.Load()
	if now.Sealer == nil {
		_, err := checks(s, nil)
		return err
	}
	sealed, err := checks(s, now.Sealer)
	if err != nil {
		return err
	}
	mixed, err := adopt(s, now.Sealer, sealed)
	c.sealing.Store(&sealing{now.Sealer, mixed})
	return err
}

// adopt adds the check of the key that seals, if it is missing. It reports whether rows of
// other keys may exist.
func adopt(s *session, sealer Sealer, sealed map[string][]byte) (mixed bool, err error) {
	if base, ok := sealed[metaCheck]; ok && len(sealed) == 1 && sealer.Current(base, []byte(keyCheck)) {
		return false, nil
	}
	check, err := sealer.Seal([]byte(keyCheck), []byte(keyCheck))
	if err != nil {
		return false, err
	}
	name := metaCheck
	if len(sealed) > 0 {
		name += "/" + sealer.ID()
	}
	if _, there := sealed[name]; there {
		return true, nil
	}
	_, err = s.exec(`INSERT INTO meta (name, value) VALUES (?, ?)`, name, check)
	return len(sealed) > 0, err
}

// Adopt implements Resealer.
func (s *sqlite) Adopt(ctx context.Context, next Sealer) error {
	var mixed bool
	return s.writer.inside(ctx, &request{class: model.Config, raw: func(t *rows) error {
		sealed, err := checks(t.session, next)
		if err == nil {
			mixed, err = adopt(t.session, next, sealed)
		}
		return err
	}, committed: func() { s.codec.sealing.Store(&sealing{next, mixed}) }})
}

// Reseal implements Resealer.
func (s *sqlite) Reseal(ctx context.Context, progress func(Resealing)) (Resealing, error) {
	// A new round looks at all rows again if some could not be read: this version may be able
	// to read rows that an earlier one could not.
	for begin := true; ; begin = false {
		more := false
		if err := s.writer.inside(ctx, &request{class: model.Credential, raw: func(t *rows) (err error) {
			more, err = t.resealPage(begin)
			return err
		}}); err != nil {
			return Resealing{}, fmt.Errorf("sealing rows anew: %w", err)
		}
		if !more {
			if err := s.endReseal(ctx); err != nil {
				return Resealing{}, fmt.Errorf("ending the change of the key: %w", err)
			}
		}
		now, err := s.Resealing(ctx)
		if err != nil {
			return Resealing{}, err
		}
		if !more && (now.Done || now.Unreadable > 0) { // otherwise another key was adopted meanwhile
			return now, nil
		}
		if progress != nil {
			progress(now)
		}
	}
}

// endReseal ends a change of the key after which no row needs an older one. Operators may
// drop that key then, so a power failure must not undo anything.
func (s *sqlite) endReseal(ctx context.Context) error {
	done := false
	return s.writer.inside(ctx, &request{class: model.Config, raw: func(t *rows) (err error) {
		done, err = t.resealed()
		return err
	}, committed: func() {
		if done {
			s.codec.sealing.Store(&sealing{s.codec.sealing.Load().Sealer, false})
		}
	}})
}

// Resealing implements Resealer.
func (s *sqlite) Resealing(ctx context.Context) (r Resealing, err error) {
	session, err := s.readers.acquire(ctx)
	if err != nil {
		return r, viewError(ctx, err)
	}
	defer s.readers.release(session)
	c := s.codec.sealing.Load()
	if !c.mixed {
		return Resealing{Done: true}, nil
	}
	at, err := readCursor(session, c.ID())
	if err != nil {
		return r, viewError(ctx, err)
	}
	r.Unreadable = at.Unreadable
	if _, err = session.row(`SELECT count(*) FROM resources WHERE id > ? AND sealed != 0`, []any{at.Last}, &r.Left); err != nil {
		return r, viewError(ctx, err)
	}
	// There may be millions of change records. Their numbers have no gaps, so they need not
	// be counted.
	var changes int
	if _, err = session.row(`SELECT coalesce(max(number) - max(?, min(number) - 1), 0) FROM changes`, []any{at.LastChange}, &changes); err != nil {
		return r, viewError(ctx, err)
	}
	r.Left += max(changes, 0)
	return r, nil
}

// readCursor returns how far the change to a key is.
func readCursor(s *session, to string) (at cursor, err error) {
	var text string
	found, err := s.row(`SELECT value FROM meta WHERE name = ?`, []any{metaReseal}, &text)
	if err != nil {
		return at, err
	}
	if found {
		if err := json.Unmarshal([]byte(text), &at); err != nil {
			return at, fmt.Errorf("reading how far the change of the key is: %w", err)
		}
	}
	if at.To != to {
		at = cursor{To: to}
	}
	return at, nil
}

// resealPage seals the next rows anew. It reports whether there may be more.
func (t *rows) resealPage(begin bool) (more bool, err error) {
	c := t.sealing.Load()
	if !c.mixed {
		return false, nil
	}
	at, err := readCursor(t.session, c.ID())
	if err != nil {
		return false, err
	}
	if begin && at.Unreadable > 0 {
		at = cursor{To: at.To}
	}
	if at.Complete {
		err = t.resealChanges(&at, c)
	} else {
		err = t.resealResources(&at)
	}
	if err != nil {
		return false, err
	}
	text, err := json.Marshal(at)
	if err != nil {
		return false, err
	}
	_, err = t.exec(`INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, metaReseal, string(text))
	return !at.complete(), err
}

// resealResources seals the next resources anew.
func (t *rows) resealResources(at *cursor) error {
	page, err := t.records(at.Last)
	if err != nil {
		return err
	}
	for i := range page {
		readable, err := t.resealRow(&page[i])
		if err != nil {
			return err
		}
		if !readable {
			at.Unreadable++
		}
		at.Last = page[i].id
	}
	at.Complete = len(page) < t.page
	return nil
}

// records reads a page of rows in their stored form.
func (t *rows) records(after int64) (page []record, err error) {
	var r record
	err = t.each(`SELECT `+columns+` FROM resources r WHERE r.id > ? ORDER BY r.id LIMIT ?`, []any{after, t.page}, func() error {
		one := r
		one.spec = append([]byte(nil), r.spec...)
		page = append(page, one)
		return nil
	}, r.dest()...)
	return page, err
}

// resealRow seals the spec of a row, and indexes its secret values, with the key that seals.
// readable is false if the row cannot be read.
func (t *rows) resealRow(r *record) (readable bool, err error) {
	c, where := t.sealing.Load(), place(r.kind, r.scope, r.name)
	if r.sealed != 0 && !c.Current(r.spec, where) {
		plain, err := c.Open(r.spec, where)
		if err != nil {
			return false, nil //nolint:nilerr // the row is counted
		}
		again, err := c.Seal(plain, where)
		if err != nil {
			return false, err
		}
		if _, err := t.exec(`UPDATE resources SET spec = ? WHERE id = ?`, again, r.id); err != nil {
			return false, err
		}
		r.spec = again
	}
	return t.redigest(r)
}

// redigest indexes the secret values of a row anew.
func (t *rows) redigest(r *record) (readable bool, err error) {
	k := t.kinds[r.kind]
	if k == nil {
		_, l, _, err := t.entriesOf(model.Key{Kind: r.kind, Scope: r.scope, Name: r.name})
		return !l.within(inUniques), err // without the kind, nobody knows which values are secret
	}
	for i := range k.Unique {
		if !k.Unique[i].Secret {
			continue
		}
		res, err := t.decode(r)
		var row engine.Row
		if err == nil {
			row, err = engine.Rebuild(res)
		}
		if err != nil {
			return false, nil //nolint:nilerr // the row is counted
		}
		return true, t.reindex(row)
	}
	return true, nil
}

// resealed drops the checks of older keys if no row needs these keys. It reports whether no
// older key is needed.
func (t *rows) resealed() (done bool, err error) {
	c := t.sealing.Load()
	if !c.mixed {
		return true, nil
	}
	at, err := readCursor(t.session, c.ID())
	if err != nil || at.Unreadable > 0 || !at.complete() {
		return false, err
	}
	check, err := c.Seal([]byte(keyCheck), []byte(keyCheck))
	if err != nil {
		return false, err
	}
	for _, q := range []struct {
		query string
		args  []any
	}{
		{`DELETE FROM meta WHERE name LIKE 'key_check/%' OR name = ?`, []any{metaReseal}},
		{`UPDATE meta SET value = ? WHERE name = ?`, []any{check, metaCheck}},
	} {
		if _, err := t.exec(q.query, q.args...); err != nil {
			return false, err
		}
	}
	return true, nil
}

// keptChange is the part of a change record that may be sealed.
type keptChange struct {
	number int64
	sealed bool
	detail []byte
}

// resealChanges seals the details of the next change records anew. A record that cannot be
// opened is counted, and does not block the others.
func (t *rows) resealChanges(at *cursor, c *sealing) error {
	var page []keptChange
	var r keptChange
	if err := t.each(`SELECT number, sealed, detail FROM changes WHERE number > ? ORDER BY number LIMIT ?`, []any{at.LastChange, t.page}, func() error {
		page = append(page, keptChange{r.number, r.sealed, append([]byte(nil), r.detail...)})
		return nil
	}, &r.number, &r.sealed, &r.detail); err != nil {
		return err
	}
	for _, r := range page {
		at.LastChange = r.number
		where := recordPlace(uint64(r.number)) //nolint:gosec // written from uint64
		if !r.sealed || c.Current(r.detail, where) {
			continue
		}
		plain, err := c.Open(r.detail, where)
		if err != nil {
			at.Unreadable++
			continue
		}
		again, err := c.Seal(plain, where)
		if err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE changes SET detail = ? WHERE number = ?`, again, r.number); err != nil {
			return err
		}
	}
	at.ChangesComplete = len(page) < t.page
	return nil
}

// digests returns all digests under which a secret value may be indexed.
func (c *codec) digests(label, value string) []string {
	now := c.sealing.Load()
	if !now.mixed {
		return []string{now.Digest(label, value)}
	}
	return now.Digests(label, value)
}

// label returns the label for the digests of an index.
func label(k *model.Kind, index string) string { return strings.Join([]string{k.Name, index}, "/") }

package sqlstore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store/internal/engine"
)

// Each resource lists its own index entries. So they are found without an index of the
// index tables by id, which would be written with each of them, and also if nobody can
// decode the resource. Entries are removed only if they are those of the resource: two
// resources may change places.

// listed are the index entries of a resource. Each begins with its table; what follows is the
// part of the key that the resource does not say itself.
type listed [][]string

// The tables.
const (
	inUniques = "u" // field, value
	inRefs    = "r" // kind, scope and name of the target, field
	inLists   = "l" // field, value
)

// listedOf lists the index entries of a row, in the order of [engine.Row].
func (c *codec) listedOf(row engine.Row) listed {
	list := make(listed, 0, len(row.Unique)+len(row.Refs)+len(row.Lists))
	for _, e := range row.Unique {
		list = append(list, []string{inUniques, e.Index, c.value(row.Resource.Kind, e)})
	}
	for _, to := range row.Refs {
		list = append(list, []string{inRefs, to.Kind, to.Scope, to.Name, to.Ref})
	}
	for _, e := range row.Lists {
		list = append(list, []string{inLists, e.Index, e.Value})
	}
	return list
}

// text is the stored form.
func (l listed) text() (string, error) {
	raw, err := json.Marshal(l)
	return string(raw), err
}

// parseListed reads the stored form.
func parseListed(text string) (l listed, err error) {
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return nil, fmt.Errorf("reading which index entries a row has: %w", err)
	}
	for _, e := range l {
		if len(e) != 3 && (len(e) != 5 || e[0] != inRefs) {
			return nil, fmt.Errorf("a row has the index entry %q, which is none", e)
		}
	}
	return l, nil
}

// targets are the resources that the entries refer to.
func (l listed) targets() (list []model.Key) {
	for _, e := range l {
		if e[0] == inRefs {
			list = append(list, model.Key{Kind: e[1], Scope: e[2], Name: e[3]})
		}
	}
	slices.SortFunc(list, func(a, b model.Key) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// within are the entries of a row in one table.
func (l listed) within(table string) bool {
	return slices.ContainsFunc(l, func(e []string) bool { return e[0] == table })
}

// entriesOf reads the id and the index entries of a resource; found is false if there is none.
// A list that cannot be read stops nobody: the entries are looked for instead.
func (t *rows) entriesOf(key model.Key) (id int64, l listed, found bool, err error) {
	var text string
	if found, err = t.row(`SELECT id, entries FROM resources WHERE kind = ? AND scope = ? AND name = ?`,
		[]any{key.Kind, key.Scope, key.Name}, &id, &text); err != nil || !found {
		return 0, nil, false, err
	}
	if l, err = parseListed(text); err != nil {
		l, err = t.entriesIn(key, id)
	}
	return id, l, true, err
}

// entriesIn looks for the index entries of a resource. It reads all entries of a scope, and all
// references, so it is only for a resource whose own list cannot be read.
func (t *rows) entriesIn(key model.Key, id int64) (l listed, err error) {
	var a, b, c, d string
	collect := func(query string, args []any, entry func() []string, dest ...any) {
		if err == nil {
			err = t.each(query, args, func() error { l = append(l, entry()); return nil }, dest...)
		}
	}
	collect(`SELECT field, value FROM uniques WHERE kind = ? AND scope = ? AND id = ?`,
		[]any{key.Kind, key.Scope, id}, func() []string { return []string{inUniques, a, b} }, &a, &b)
	collect(`SELECT to_kind, to_scope, to_name, field FROM refs WHERE kind = ? AND scope = ? AND name = ? AND id = ?`,
		[]any{key.Kind, key.Scope, key.Name, id}, func() []string { return []string{inRefs, a, b, c, d} }, &a, &b, &c, &d)
	collect(`SELECT field, value FROM lists WHERE kind = ? AND scope = ? AND name = ? AND id = ?`,
		[]any{key.Kind, key.Scope, key.Name, id}, func() []string { return []string{inLists, a, b} }, &a, &b)
	return l, err
}

// index writes the index entries of a row, until a unique value is another's.
func (t *rows) index(row engine.Row, l listed, id int64) (claimed bool, err error) {
	r := row.Resource
	for i, e := range row.Unique {
		_, claimed, err := t.insert(`INSERT INTO uniques (kind, scope, field, value, id) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			r.Kind.Name, r.Scope, e.Index, l[i][2], id)
		if err != nil || !claimed {
			return false, err
		}
	}
	for _, to := range row.Refs {
		if _, err := t.exec(`INSERT INTO refs (to_kind, to_scope, to_name, kind, field, scope, name, refuse, id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			to.Kind, to.Scope, to.Name, r.Kind.Name, to.Ref, r.Scope, r.Name, to.OnDelete == model.Refuse, id); err != nil {
			return false, err
		}
	}
	for _, e := range row.Lists {
		if _, err := t.exec(`INSERT INTO lists (kind, scope, field, value, name, id) VALUES (?, ?, ?, ?, ?, ?)`,
			r.Kind.Name, r.Scope, e.Index, e.Value, r.Name, id); err != nil {
			return false, err
		}
	}
	return true, nil
}

// unindex removes those index entries of a resource that are its own.
func (t *rows) unindex(key model.Key, l listed, id int64) (err error) {
	for _, e := range l {
		switch e[0] {
		case inUniques:
			_, err = t.exec(`DELETE FROM uniques WHERE kind = ? AND scope = ? AND field = ? AND value = ? AND id = ?`,
				key.Kind, key.Scope, e[1], e[2], id)
		case inRefs:
			_, err = t.exec(`DELETE FROM refs WHERE to_kind = ? AND to_scope = ? AND to_name = ? AND kind = ? AND field = ? AND scope = ? AND name = ? AND id = ?`,
				e[1], e[2], e[3], key.Kind, e[4], key.Scope, key.Name, id)
		case inLists:
			_, err = t.exec(`DELETE FROM lists WHERE kind = ? AND scope = ? AND field = ? AND value = ? AND name = ? AND id = ?`,
				key.Kind, key.Scope, e[1], e[2], key.Name, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reindex replaces the index entries of a row.
func (t *rows) reindex(row engine.Row) error {
	key := row.Resource.Key()
	id, old, found, err := t.entriesOf(key)
	if err == nil && !found {
		err = fmt.Errorf("the row of %s %q is gone", key.Kind, key.Name)
	}
	if err != nil {
		return err
	}
	if err := t.unindex(key, old, id); err != nil {
		return err
	}
	l := t.listedOf(row)
	text, err := l.text()
	if err != nil {
		return err
	}
	if _, err := t.exec(`UPDATE resources SET entries = ? WHERE id = ?`, text, id); err != nil {
		return err
	}
	claimed, err := t.index(row, l, id)
	if err == nil && !claimed {
		err = fmt.Errorf("a value of %s %q is another's", key.Kind, key.Name)
	}
	return err
}

package sqlstore

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store/internal/engine"
)

// migrations holds one SQL file per schema version. A file that was released
// never changes. The version of a database is its user_version: the number of the last
// file that it has seen.
//
//go:embed migrations/*.sql
var migrations embed.FS

// newCodec checks the kinds and what they need.
func newCodec(o Options) (*codec, error) {
	c := &codec{kinds: make(map[string]*model.Kind, len(o.Kinds)), page: cmp.Or(o.page, resealPage)}
	c.sealing.Store(&sealing{Sealer: o.Sealer})
	for _, k := range o.Kinds {
		if k.Class != model.Config && k.Class != model.Credential {
			return nil, fmt.Errorf("kind %s is of a class that this store does not keep", k.Name)
		}
		if c.kinds[k.Name] != nil {
			return nil, fmt.Errorf("kind %s is registered twice", k.Name)
		}
		secret := slices.ContainsFunc(k.Unique, func(ix model.Index) bool { return ix.Secret })
		if (k.Sealed || secret) && o.Sealer == nil {
			return nil, fmt.Errorf("kind %s holds secrets, and there is no key", k.Name)
		}
		c.kinds[k.Name] = k
	}
	for _, k := range o.Kinds {
		for _, ref := range k.Refs {
			if c.kinds[ref.To] == nil {
				return nil, fmt.Errorf("kind %s references the unknown kind %s", k.Name, ref.To)
			}
		}
		for _, hold := range k.Holds {
			if c.kinds[hold.To] == nil {
				return nil, fmt.Errorf("kind %s holds the unknown kind %s", k.Name, hold.To)
			}
		}
	}
	mortal := []string{}
	for name, k := range c.kinds {
		if k.Expires != nil {
			mortal = append(mortal, name)
		}
	}
	raw, err := json.Marshal(mortal)
	c.mortal = string(raw)
	return c, err
}

// prepare brings a database up to date in one transaction: schema, key check,
// incarnation and indexes. alone says that its file was there, without a log.
func prepare(s *session, c *codec, o Options, alone bool) error {
	if err := s.control("PRAGMA journal_size_limit = 67108864"); err != nil {
		return err
	}
	if err := s.control("PRAGMA synchronous = FULL"); err != nil {
		return err
	}
	if err := s.control("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return migrate(s, alone) },
		func() error { return checkKey(s, c) },
		func() error { return incarnate(s, o.Restored) },
		func() error { return refreshIndexes(s, c, o.Log) },
	} {
		if err := step(); err != nil {
			return errors.Join(err, s.control("ROLLBACK"))
		}
	}
	return s.control("COMMIT")
}

// migration is one schema file; its number is that at the start of its name.
type migration struct {
	number int
	name   string
}

// listMigrations lists the schema files in order. Each has a number of its own. Numbers
// need not follow each other: two that are written side by side are numbered in advance.
func listMigrations() ([]migration, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var list []migration
	for _, name := range names {
		digits, _, _ := strings.Cut(path.Base(name), "_")
		n, err := strconv.Atoi(digits)
		if err != nil {
			return nil, fmt.Errorf("migration %s has no number: %w", name, err)
		}
		if last := len(list) - 1; last >= 0 && list[last].number >= n {
			return nil, fmt.Errorf("migrations %s and %s do not have ascending numbers", list[last].name, name)
		}
		list = append(list, migration{n, name})
	}
	return list, nil
}

// migrate runs the schema files that the database has not seen.
func migrate(s *session, alone bool) error {
	files, err := listMigrations()
	if err != nil {
		return err
	}
	var version int
	if _, err := s.row("PRAGMA user_version", nil, &version); err != nil {
		return err
	}
	if newest := files[len(files)-1].number; version > newest {
		return fmt.Errorf("it has schema version %d, this program knows %d: it was written by a newer one", version, newest)
	}
	if version == 0 && alone {
		return errors.New("it is empty: what it held was in its log (the file with -wal at the end of its name), which is not here. " +
			"Put the log beside it or restore a backup; if this is a new installation whose first start was broken off, delete the file")
	}
	for _, m := range files {
		if m.number <= version {
			continue
		}
		text, err := migrations.ReadFile(m.name)
		if err != nil {
			return err
		}
		if err := s.control(string(text)); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
		if err := s.control(fmt.Sprintf("PRAGMA user_version = %d", m.number)); err != nil {
			return err
		}
	}
	return nil
}

// keyCheck is sealed into a new database; who can open it has the right key.
const keyCheck = "meshgate key check"

// fingerprint names everything that decides which index rows exist. Whether a reference
// may name another scope is not among it: what was written before the kind could say so
// names none, and its index rows are right as they are.
func fingerprint(kinds map[string]*model.Kind) string {
	var lines []string
	for _, k := range kinds {
		line := fmt.Sprintf("%s sealed=%v expires=%v", k.Name, k.Sealed, k.Expires != nil)
		for _, ix := range k.Unique {
			line += fmt.Sprintf(" unique:%s:%v", ix.Name, ix.Secret)
		}
		for _, r := range k.Refs {
			line += fmt.Sprintf(" ref:%s:%s:%d", r.Name, r.To, r.OnDelete)
		}
		for _, h := range k.Holds {
			line += fmt.Sprintf(" hold:%s:%s", h.Name, h.To)
		}
		for _, ix := range k.Lists {
			line += " list:" + ix.Name
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// sameIndexes compares two fingerprints. The order in which a kind lists its indexes
// means nothing.
func sameIndexes(a, b string) bool { return slices.Equal(sortedWords(a), sortedWords(b)) }

// sortedWords are the lines of a fingerprint, each with its words in order.
func sortedWords(fingerprint string) []string {
	lines := strings.Split(fingerprint, "\n")
	for i, line := range lines {
		words := strings.Fields(line)
		slices.Sort(words[min(1, len(words)):])
		lines[i] = strings.Join(words, " ")
	}
	return lines
}

// refreshIndexes writes all index rows anew if a version of the program with
// other indexes wrote the database. While there are rows that cannot be read, every
// start tries again: they may be of a version that this one comes after.
func refreshIndexes(s *session, c *codec, log *slog.Logger) error {
	var have string
	want := fingerprint(c.kinds)
	found, err := s.row(`SELECT value FROM meta WHERE name = 'indexes'`, nil, &have)
	if err != nil || (found && sameIndexes(have, want)) {
		return err
	}
	if found {
		left, err := reindex(&rows{session: s, codec: c}, log)
		if err != nil {
			return fmt.Errorf("building the indexes of this version: %w", err)
		}
		if left > 0 { // no version has such indexes
			want += "\nbut those of rows that cannot be read"
		}
	}
	_, err = s.exec(`INSERT INTO meta (name, value) VALUES ('indexes', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, want)
	return err
}

// reindexPage bounds the resources held in memory at once.
const reindexPage = 500

// reindex writes the index rows of all resources that can be read and returns how
// many others are left. Those keep the index rows that they have, so that nobody
// takes a unique value of theirs, or deletes what they refer to, behind their backs.
// None takes the others with it.
func reindex(t *rows, log *slog.Logger) (left int, err error) {
	// All go before the first new one comes: two rows may have changed places.
	if err := t.walk(func(res *model.Resource, unreadable error) error {
		if unreadable != nil {
			left++
			log.Error("a resource cannot be read; its indexes stay as they are", "error", unreadable)
			return nil
		}
		id, l, _, err := t.entriesOf(res.Key())
		if err != nil {
			return err
		}
		return t.unindex(res.Key(), l, id)
	}); err != nil {
		return 0, err
	}
	return left, t.walk(func(res *model.Resource, unreadable error) error {
		if unreadable != nil {
			return nil
		}
		row, err := engine.Rebuild(res)
		if err == nil {
			err = t.Replace(row, row, true)
		}
		if err != nil {
			return fmt.Errorf("%s %q: %w", res.Kind.Name, res.Name, err)
		}
		return nil
	})
}

// stored is one row of a walk.
type stored struct {
	res        *model.Resource
	unreadable error
}

// walk visits all resources, or why one of them cannot be read. The visitor may write
// what it is shown.
func (t *rows) walk(visit func(res *model.Resource, unreadable error) error) error {
	var last int64
	for {
		var page []stored
		var r record
		if err := t.each(`SELECT `+columns+` FROM resources r WHERE r.id > ? ORDER BY r.id LIMIT ?`, []any{last, reindexPage}, func() error {
			res, err := t.decode(&r)
			page, last = append(page, stored{res, err}), r.id
			return nil
		}, r.dest()...); err != nil || len(page) == 0 {
			return err
		}
		for _, s := range page {
			if err := visit(s.res, s.unreadable); err != nil {
				return err
			}
		}
	}
}

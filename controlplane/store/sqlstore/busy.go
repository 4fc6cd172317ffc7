package sqlstore

import (
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store/internal/engine"
)

// maxRecent bounds the rows in recent.
const maxRecent = 4096

// busy holds rows of busy kinds. Many transactions of one commit read and write the same of them, as the
// logins of a portal count its events. So they are read once for as long as nobody else writes, and of
// those that only change, the last version of a commit is written, once.
type busy struct {
	// recent holds rows as they are, and nil for a row that is not there: what every login looks for and
	// nobody has set up is looked for in the database once. It is nil unless nobody else writes, and
	// forgotten when something is undone.
	recent map[model.Key]*model.Resource
	// late holds those of them whose last version is not in the database yet. It is nil where a part of a
	// SQLite transaction may be undone. Whoever reads more than one row writes them before, and so does
	// whoever commits.
	late map[model.Key]engine.Row
}

// held reports whether rows of a kind may be in memory: never those with secrets.
func held(k *model.Kind) bool { return k.Busy && !k.Sealed && k.Expires == nil }

// get returns a row, nil if it is not there; known is false if it has to be read.
func (b *busy) get(key model.Key) (res *model.Resource, known bool) {
	if row, ok := b.late[key]; ok {
		return row.Resource, true
	}
	res, known = b.recent[key]
	return res, known
}

// keep keeps a row that is in the database.
func (b *busy) keep(res *model.Resource) { b.note(res.Kind, res.Key(), res) }

// note keeps what is in the database under a key; nil is nothing.
func (b *busy) note(k *model.Kind, key model.Key, res *model.Resource) {
	if b.recent == nil || !held(k) {
		return
	}
	if len(b.recent) >= maxRecent {
		clear(b.recent)
	}
	b.recent[key] = res
}

// defers keeps a row that is to be written in the place of another one, and reports whether it did.
func (b *busy) defers(row engine.Row) bool {
	if b.late == nil || !held(row.Resource.Kind) {
		return false
	}
	b.late[row.Resource.Key()] = row
	return true
}

// drop forgets a row that is removed.
func (b *busy) drop(key model.Key) {
	delete(b.recent, key)
	delete(b.late, key)
}

func (b *busy) forget() {
	clear(b.recent)
	clear(b.late)
}

// catchUp writes the rows that are late.
func (t *rows) catchUp() error {
	for key, row := range t.late {
		if err := t.replace(row); err != nil {
			return err
		}
		delete(t.late, key)
	}
	return nil
}

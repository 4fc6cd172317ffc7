package sqlstore

import (
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// readRevision returns the newest revision of the state that a session sees.
func readRevision(s *session) (uint64, error) {
	var rev int64
	_, err := s.row(`SELECT value FROM meta WHERE name = 'revision'`, nil, &rev)
	return uint64(rev), err //nolint:gosec // written from uint64
}

// readHistory returns the stored commits above a revision, oldest first.
func readHistory(s *session, after uint64) ([][]store.Event, error) {
	var commits [][]store.Event
	var rev int64
	var key model.Key
	var op string
	err := s.each(`SELECT revision, kind, scope, name, op FROM events WHERE revision > ? ORDER BY revision, ordinal`,
		[]any{after}, func() error {
			e := store.Event{Revision: uint64(rev), Key: key, Op: store.Op(op)} //nolint:gosec // written from uint64
			if n := len(commits); n > 0 && commits[n-1][0].Revision == e.Revision {
				commits[n-1] = append(commits[n-1], e)
			} else {
				commits = append(commits, []store.Event{e})
			}
			return nil
		}, &rev, &key.Kind, &key.Scope, &key.Name, &op)
	return commits, err
}

// writeHistory stores commits, drops those that are no longer kept, and sets the revision.
func writeHistory(s *session, commits [][]store.Event, floor, revision uint64) error {
	for _, events := range commits {
		for i, e := range events {
			if _, err := s.exec(`INSERT INTO events (revision, ordinal, kind, scope, name, op) VALUES (?, ?, ?, ?, ?, ?)`,
				e.Revision, i, e.Key.Kind, e.Key.Scope, e.Key.Name, string(e.Op)); err != nil {
				return err
			}
		}
	}
	if _, err := s.exec(`DELETE FROM events WHERE revision <= ?`, floor); err != nil {
		return err
	}
	_, err := s.exec(`UPDATE meta SET value = ? WHERE name = 'revision'`, revision)
	return err
}

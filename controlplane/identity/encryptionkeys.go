package identity

import (
	"context"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// NoteEncryptionKeys notes that an encryption key is made, if one is named, and that those
// are gone which are not kept. The keys are in a file, of which nobody could be told who
// changed it: a row for each, without the key, has the change recorded with its actor.
// Keys that no rotation has made have no row.
func NoteEncryptionKeys(ctx context.Context, s store.Store, w Writer, made string, kept []string) error {
	stale := false
	err := s.View(ctx, func(r store.Reader) error {
		noted, gone, err := notedKeys(r, made, kept)
		stale = len(gone) > 0 || made != "" && !noted
		return err
	})
	if err != nil || !stale {
		return err
	}
	_, err = w.Write(ctx, model.Config, func(tx store.Tx) error {
		noted, gone, err := notedKeys(tx, made, kept)
		if err != nil {
			return err
		}
		for _, name := range gone {
			if err := tx.Delete(Keys, "", name, 0); err != nil {
				return err
			}
		}
		if made != "" && !noted {
			_, err = tx.Create(&model.Resource{Kind: Keys, Name: keyEncryption + made, Spec: &KeyPair{}})
		}
		return err
	})
	return err
}

// notedKeys reports whether a key is noted, and names the rows of those that are not kept.
// A row that cannot be read stays: its name is not known.
func notedKeys(r store.Reader, made string, kept []string) (noted bool, gone []string, err error) {
	rows, _, err := store.PageReadable(r, Keys, store.Query{Part: keyEncryption})
	for _, res := range rows {
		if res == nil {
			continue
		}
		id, ours := strings.CutPrefix(res.Name, keyEncryption)
		switch {
		case !ours:
		case id == made:
			noted = true
		case !slices.Contains(kept, id):
			gone = append(gone, res.Name)
		}
	}
	return noted, gone, err
}

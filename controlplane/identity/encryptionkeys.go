package identity

import (
	"context"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// NoteEncryptionKeys records that an encryption key is made, if one is named, and that those
// not kept are gone. The keys are in a file, which does not record who changed it. So each
// key has a row, without the key itself, and changes of the rows are recorded with their
// actor. A key that was not made by a rotation has no row.
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

// notedKeys reports whether a key is noted, and lists the rows of keys that are not kept. A
// row that cannot be read stays, because its name is not known.
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

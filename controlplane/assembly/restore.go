package assembly

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/meshgate/meshgate/controlplane/backup"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/xds/durable"
)

// Restore makes a state directory from a backup. It is used once.
type Restore struct {
	// Config says where the state directory, the databases and the key will be.
	Config *config.Config
	// File is the backup.
	File string
	// KeyFile holds the encryption key of the backup, PassphraseFile the passphrase of the
	// key in the backup. Both may be empty.
	KeyFile, PassphraseFile string
	Log                     *slog.Logger
	// work is the directory in which the parts are prepared.
	work string
}

// Run restores the backup, and prints on out what to do next. It refuses to replace anything
// that exists, and refuses a backup without its key.
func (r *Restore) Run(ctx context.Context, out io.Writer) error {
	claim, err := ClaimStateDir(r.Config.StateDir)
	if err != nil {
		return err
	}
	defer claim.Close() // the claim is only a lock
	if err := r.mayWrite(); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp(filepath.Dir(r.Config.Store.SQLite.Path), ".restore-*"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work) //nolint:errcheck // what is left hinders nobody but the next restore, which names it
	m, err := backup.Unpack(r.File, r.work)
	if err != nil {
		return err
	}
	root, err := r.root(&m)
	if err != nil {
		return err
	}
	if err := r.ready(ctx, &m, root); err != nil {
		return err
	}
	if err := r.place(&m, root); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, `restored %s as of %s (revision %d of the store %s) into %s
Next:
1. Make sure that the control plane of which this is a backup does not run any more, here or elsewhere.
2. Start meshgate with this state directory. Gateways and sidecars link again by themselves; Redis is put in order anew.
3. Revoke again what was revoked after %[2]s: it is valid again.
4. If revocations answer 503, they wait for gateways of the backup: start each with its run directory. One that is gone for good is said with DELETE /nodes/{name}, and with ?former=true if another process of it is connected.
`, r.File, m.Time.Format("2006-01-02T15:04:05Z"), m.Revision, m.Incarnation, r.Config.StateDir)
	return nil
}

// mayWrite checks that there is nothing that a restore would mix with the backup.
func (r *Restore) mayWrite() error {
	list, err := os.ReadDir(r.Config.StateDir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.Name() != "lost+found" { // a file system has it in its root
			return fmt.Errorf("state directory %s is not empty, it holds %s: restore into an empty or a new one", r.Config.StateDir, e.Name())
		}
	}
	// The settings may place the databases outside of the state directory.
	for _, path := range []string{r.Config.Store.SQLite.Path, statusPath(r.Config)} {
		there, err := sqlstore.Present(path)
		if err == nil && there {
			err = fmt.Errorf("there is a database %s already", path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// root returns the key ring of the backup, from the settings, a key file or the backup.
func (r *Restore) root(m *backup.Manifest) (*seal.Ring, error) {
	e := r.Config.Store.Encryption
	_, err := os.Stat(e.KeyFile)
	configured := err == nil || e.Key != ""
	switch given := r.KeyFile != "" || r.PassphraseFile != ""; {
	case given && configured:
		return nil, fmt.Errorf("the settings name a key already, in %s: restore with that one, without --encryption-key-file and --passphrase-file", keySource(&r.Config.Store))
	case r.KeyFile != "" && r.PassphraseFile != "":
		return nil, errors.New("--encryption-key-file and --passphrase-file are two keys: give one")
	case r.KeyFile != "":
		return seal.Read(r.KeyFile, "")
	case configured:
		return seal.Read(e.KeyFile, e.Key)
	case !m.HasKey():
		return nil, errors.New("the encryption key is not in the backup: give --encryption-key-file with the copy that was kept apart")
	case r.PassphraseFile == "":
		return nil, errors.New("the encryption key is needed: give --passphrase-file, because it is in the backup under a passphrase, or --encryption-key-file")
	}
	passphrase, err := backup.Passphrase(r.PassphraseFile)
	if err != nil {
		return nil, fmt.Errorf("--passphrase-file: %w", err)
	}
	text, err := backup.Unwrap(filepath.Join(r.work, backup.KeyPart), passphrase)
	if err != nil {
		return nil, err
	}
	return seal.Read("", text)
}

// renew makes the database a new incarnation, which trusts nothing in Redis.
func (r *Restore) renew(ctx context.Context, root *seal.Ring) error {
	keys, err := root.Keys()
	if err != nil {
		return err
	}
	s, err := sqlstore.Open(ctx, sqlstore.Options{
		Path: filepath.Join(r.work, backup.MainPart), Kinds: AllKinds(), Sealer: keys, Log: r.Log, Restored: true,
		Past: func() time.Time { return time.UnixMilli(0) }, // drop nothing: the next process decides by its own clock
	})
	if errors.Is(err, sqlstore.ErrKey) {
		return fmt.Errorf("backup %s was made with another encryption key than the given one", r.File)
	}
	if err != nil {
		return err
	}
	return errors.Join(revoke.Restored(ctx, s), s.Close())
}

// ready prepares the parts for their places. It refuses a database whose last commits are
// still in its log, because only the file is moved. Those commits say that the database comes
// from a backup.
func (r *Restore) ready(ctx context.Context, m *backup.Manifest, root *seal.Ring) error {
	if err := r.renew(ctx, root); err != nil {
		return err
	}
	for _, p := range m.Parts {
		if err := sqlstore.Whole(filepath.Join(r.work, p.Name)); err != nil {
			return fmt.Errorf("nothing was restored, because a write did not reach the disk; see the log, and try again: %w", err)
		}
	}
	return nil
}

// place moves everything to where the settings say. The key comes last, so that a start
// refuses an incomplete restore.
func (r *Restore) place(m *backup.Manifest, root *seal.Ring) error {
	for _, p := range m.Parts {
		into := map[string]string{backup.MainPart: r.Config.Store.SQLite.Path, backup.StatusPart: statusPath(r.Config)}[p.Name]
		if into == "" {
			continue
		}
		if err := os.Rename(filepath.Join(r.work, p.Name), into); err != nil {
			return err
		}
	}
	e := r.Config.Store.Encryption
	if _, err := os.Stat(e.KeyFile); err == nil || e.Key != "" {
		return durable.SyncDir(filepath.Dir(r.Config.Store.SQLite.Path))
	}
	if err := writeKey(e.KeyFile, root); err != nil {
		return err
	}
	return errors.Join(durable.SyncDir(filepath.Dir(r.Config.Store.SQLite.Path)), durable.SyncDir(filepath.Dir(e.KeyFile)))
}

// writeKey writes a key file and waits until it is on disk.
func writeKey(path string, root *seal.Ring) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the path is the operator's
	if err != nil {
		return err
	}
	_, err = f.WriteString(root.Text())
	return errors.Join(err, f.Sync(), f.Close())
}

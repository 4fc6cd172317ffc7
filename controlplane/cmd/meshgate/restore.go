package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/backup"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

const restoreHelp = `Make a state directory from a backup.

The state directory must be empty or missing. The encryption key comes from
--encryption-key-file, from the backup itself (--passphrase-file), or from where the
settings say that it is. What was revoked after the backup was made is valid again:
revoke it again. The control plane whose backup this is must not run any more.`

// restoring is one run of the command.
type restoring struct {
	cfg                     *config.Config
	file                    string
	keyFile, passphraseFile string
	log                     *slog.Logger
	// work is the directory in which the parts are made ready.
	work string
}

func restoreCommand() *cobra.Command {
	var r restoring
	c := &cobra.Command{
		Use:     "restore FILE",
		Short:   "Make a state directory from a backup",
		Long:    restoreHelp,
		Example: `  meshgate restore meshgate.backup --state-dir /var/lib/meshgate --passphrase-file passphrase`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			l, err := load(c)
			if err != nil {
				return err
			}
			r.cfg, r.file, r.log = &l.Config, args[0], newLogger(l.Config.Log)
			return notBegun(r.run(c.Context(), c.OutOrStdout()))
		},
	}
	c.Flags().StringVar(&r.keyFile, "encryption-key-file", "", "file with the encryption key of the backup; it is copied to where the settings say that the key is")
	c.Flags().StringVar(&r.passphraseFile, "passphrase-file", "", "file with the passphrase of the encryption key in the backup")
	addFlags(c, only(storeSettings...))
	return c
}

func (r *restoring) run(ctx context.Context, out io.Writer) error {
	claim, err := claimStateDir(r.cfg.StateDir)
	if err != nil {
		return err
	}
	defer claim.Close() // it was only locked
	if err := r.mayWrite(); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp(filepath.Dir(r.cfg.Store.SQLite.Path), ".restore-*"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work) //nolint:errcheck // what is left hinders nobody but the next restore, which names it
	m, err := backup.Unpack(r.file, r.work)
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
`, r.file, m.Time.Format("2006-01-02T15:04:05Z"), m.Revision, m.Incarnation, r.cfg.StateDir)
	return nil
}

// mayWrite refuses to mix a backup with anything.
func (r *restoring) mayWrite() error {
	list, err := os.ReadDir(r.cfg.StateDir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.Name() != "lost+found" { // of a file system of its own
			return fmt.Errorf("state directory %s is not empty, it holds %s: restore into an empty or a new one", r.cfg.StateDir, e.Name())
		}
	}
	// They may stand elsewhere than the state directory.
	for _, path := range []string{r.cfg.Store.SQLite.Path, statusPath(r.cfg)} {
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

// root returns the key that the caller has.
func (r *restoring) root(m *backup.Manifest) (*seal.Ring, error) {
	e := r.cfg.Store.Encryption
	_, err := os.Stat(e.KeyFile)
	configured := err == nil || e.Key != ""
	switch given := r.keyFile != "" || r.passphraseFile != ""; {
	case given && configured:
		return nil, fmt.Errorf("the settings name a key already, in %s: restore with that one, without --encryption-key-file and --passphrase-file", keySource(&r.cfg.Store))
	case r.keyFile != "" && r.passphraseFile != "":
		return nil, errors.New("--encryption-key-file and --passphrase-file are two keys: give one")
	case r.keyFile != "":
		return seal.Read(r.keyFile, "")
	case configured:
		return seal.Read(e.KeyFile, e.Key)
	case !m.HasKey():
		return nil, errors.New("the encryption key is not in the backup: give --encryption-key-file with the copy that was kept apart")
	case r.passphraseFile == "":
		return nil, errors.New("the encryption key is needed: give --passphrase-file, because it is in the backup under a passphrase, or --encryption-key-file")
	}
	passphrase, err := backup.Passphrase(r.passphraseFile)
	if err != nil {
		return nil, fmt.Errorf("--passphrase-file: %w", err)
	}
	text, err := backup.Unwrap(filepath.Join(r.work, backup.KeyPart), passphrase)
	if err != nil {
		return nil, err
	}
	return seal.Read("", text)
}

// renew makes the database another incarnation, which believes nothing of Redis.
func (r *restoring) renew(ctx context.Context, root *seal.Ring) error {
	keys, err := root.Keys()
	if err != nil {
		return err
	}
	s, err := sqlstore.Open(ctx, sqlstore.Options{Path: filepath.Join(r.work, backup.MainPart), Kinds: allKinds(), Sealer: keys, Log: r.log, Restored: true})
	if errors.Is(err, sqlstore.ErrKey) {
		return fmt.Errorf("backup %s was made with another encryption key than the given one", r.file)
	}
	if err != nil {
		return err
	}
	return errors.Join(revoke.Restored(ctx, s), s.Close())
}

// ready makes the parts what is to be placed. It refuses those that would be torn
// apart: a store that is closed may leave its last commits in its log, and they say
// that the database comes from a backup.
func (r *restoring) ready(ctx context.Context, m *backup.Manifest, root *seal.Ring) error {
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

// place puts everything where the settings say. The key comes last: a start that finds
// only a part is refused.
func (r *restoring) place(m *backup.Manifest, root *seal.Ring) error {
	for _, p := range m.Parts {
		into := map[string]string{backup.MainPart: r.cfg.Store.SQLite.Path, backup.StatusPart: statusPath(r.cfg)}[p.Name]
		if into == "" {
			continue
		}
		if err := os.Rename(filepath.Join(r.work, p.Name), into); err != nil {
			return err
		}
	}
	e := r.cfg.Store.Encryption
	if _, err := os.Stat(e.KeyFile); err == nil || e.Key != "" {
		return syncDir(filepath.Dir(r.cfg.Store.SQLite.Path))
	}
	if err := writeKey(e.KeyFile, root); err != nil {
		return err
	}
	return errors.Join(syncDir(filepath.Dir(r.cfg.Store.SQLite.Path)), syncDir(filepath.Dir(e.KeyFile)))
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

func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the path is the operator's
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

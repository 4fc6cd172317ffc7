package assembly

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/meshgate/meshgate/controlplane/backup"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/version"
)

// WriteBackup writes a backup and prints what a restore will need.
func WriteBackup(ctx context.Context, c *config.Config, file, passphraseFile string, out io.Writer) error {
	source, err := backupSource(c)
	if err != nil {
		return err
	}
	if passphraseFile != "" {
		if err := withKey(ctx, c, &source, passphraseFile); err != nil {
			return err
		}
	}
	m, err := backup.Write(ctx, source, file)
	if err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	_, _ = fmt.Fprintf(out, "backup %s: revision %d of the store %s, at %s\n", file, m.Revision, m.Incarnation, m.Time.Format(time.RFC3339))
	if m.HasKey() {
		_, _ = fmt.Fprintln(out, "The encryption key is in it, wrapped with the passphrase. Keep the passphrase apart from the backup.")
		return nil
	}
	_, _ = fmt.Fprintf(out, "The encryption key is NOT in it. It is in %s: keep a copy apart from the backup, which cannot be restored without it.\n", keySource(&c.Store))
	return nil
}

// backupSource returns what a backup contains, without the key.
func backupSource(c *config.Config) (backup.Source, error) {
	s := backup.Source{Main: c.Store.SQLite.Path, Status: statusPath(c), Program: version.Program}
	if c.Store.Type == "memory" {
		return s, fault.NotBegun(errors.New("store.type is memory: there is nothing to back up"))
	}
	there, err := sqlstore.Present(s.Main)
	if err == nil && !there {
		err = fmt.Errorf("there is no database %s; set stateDir (environment %s) to the state directory of the control plane", s.Main, config.EnvName("stateDir"))
	}
	return s, fault.NotBegun(err)
}

// withKey adds the encryption key if it opens the database.
func withKey(ctx context.Context, c *config.Config, s *backup.Source, passphraseFile string) (err error) {
	if s.Passphrase, err = backup.Passphrase(passphraseFile); err != nil {
		return fault.NotBegun(fmt.Errorf("--passphrase-file: %w", err))
	}
	s.Key = backupKeys(&c.Store)
	_, err = s.Key(ctx, s.Main) // verify the key before anything is written
	return err
}

// backupSchedule returns the schedule of the settings, or nil if there is none. Such a backup
// does not contain the key: the control plane could only encrypt the key with a passphrase
// that it can read, and that would lie beside the backup.
func (cp *ControlPlane) backupSchedule() *backup.Schedule {
	c := cp.cfg
	if c.Backup.Every == 0 {
		return nil
	}
	return &backup.Schedule{
		Every: c.Backup.Every, Keep: c.Backup.Keep, Directory: c.Backup.Directory, Log: cp.Log, Told: cp.judgeBackup,
		Source: backup.Source{Main: c.Store.SQLite.Path, Status: statusPath(c), Program: version.Program},
	}
}

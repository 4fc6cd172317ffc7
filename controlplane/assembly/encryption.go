package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

const (
	// resealRetry is the pause after a failure before resealing goes on.
	resealRetry = time.Minute
	// resealTold is the interval at which progress is logged.
	resealTold = 10 * time.Second
)

// encryption changes the key that encrypts secrets at rest. The key file is always ahead of
// the database: a new key is in the file before anything is sealed with it, and an old key
// leaves the file after nothing is sealed with it. So whenever a process ends, the next start
// finds the keys that it needs and goes on.
type encryption struct {
	file     string
	fixed    string // why keys cannot be changed here; empty if they can
	resealer sqlstore.Resealer
	log      *slog.Logger
	wake     chan struct{}
	// note records the keys that are kept and, unless made is empty, that a key is made.
	note func(ctx context.Context, made string, kept []string) error
	// between runs between any two steps. Its error stops the change.
	between func(step string) error

	mu sync.Mutex // held while the key file changes
}

// newEncryption makes the encryption of an open store; nil if the store encrypts nothing.
func newEncryption(c *config.Store, s store.Store, log *slog.Logger) *encryption {
	resealer, ok := s.(sqlstore.Resealer)
	if !ok {
		return nil
	}
	e := &encryption{file: c.Encryption.KeyFile, resealer: resealer, log: log, wake: make(chan struct{}, 1), between: func(string) error { return nil }}
	e.note = func(context.Context, string, []string) error { return nil }
	if c.Encryption.Key != "" {
		e.fixed = "the key comes from a setting: put a new one before the old one in " + config.EnvName("store.encryption.key") + ", with a comma between, and start the control plane again"
	}
	return e
}

// rotate adds a key, which seals from now on. Stored rows are resealed in the background.
func (e *encryption) rotate(ctx context.Context, forgetOld bool) (string, error) {
	if e == nil {
		return "", fault.New(fault.Conflict, "nothing is encrypted: the store is in memory")
	}
	if e.fixed != "" {
		return "", fault.New(fault.Conflict, "%s", e.fixed)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	ring, err := seal.Read(e.file, "")
	if err != nil {
		return "", fault.Wrap(fault.Conflict, err, "%s", err)
	}
	if ring.Full() {
		return "", fault.New(fault.Conflict, "the key file %s has no room for another key: rotate once more with --forget-old after you have removed the oldest", e.file)
	}
	next := ring.Rotated(forgetOld)
	if err := e.between("begin"); err != nil {
		return "", err
	}
	// The key is recorded before it is made, so that no rotation happens without a record.
	ids, err := idsOf(next)
	if err != nil {
		return "", err
	}
	if err := e.note(ctx, ids[0], ids); err != nil {
		return "", fmt.Errorf("the rotation cannot be recorded, and is not made: %w", err)
	}
	if err := seal.Write(e.file, next); err != nil {
		if err := e.note(ctx, "", ids[1:]); err != nil {
			e.log.Warn("the changes tell of a new encryption key, which could not be written; the next start takes that back", "error", err)
		}
		return "", fault.Wrap(fault.Conflict, err, "the key file %s cannot be replaced: %s", e.file, err)
	}
	if err := e.between("written"); err != nil {
		return "", err
	}
	if err := e.adopt(ctx, next); err != nil {
		return "", fmt.Errorf("the new key is in %s and is used from the next start on: %w", e.file, err)
	}
	e.again()
	said := fmt.Sprintf("A new key encrypts from now on; what is stored follows in the background (`meshgate keys list` shows how many rows are left). Copy %s to where you keep it now: backups need it.", e.file)
	if forgetOld {
		said += " The old keys leave the file when nothing is left under them; backups from before then need a copy of them."
	}
	return said, nil
}

// idsOf returns the ids of the keys of a ring, the newest first.
func idsOf(ring *seal.Ring) ([]string, error) {
	keys, err := ring.Keys()
	if err != nil {
		return nil, err
	}
	return keys.IDs(), nil
}

// adopt makes the store seal with the first key of a ring.
func (e *encryption) adopt(ctx context.Context, ring *seal.Ring) error {
	keys, err := ring.Keys()
	if err != nil {
		return err
	}
	return e.resealer.Adopt(ctx, keys)
}

// again wakes run.
func (e *encryption) again() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// run seals all stored rows with the newest key, at the start and after each rotation. It
// works until ctx ends, and returns the error of ctx.
func (e *encryption) run(ctx context.Context) error {
	if e == nil {
		return nil
	}
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.wake:
		case <-retry.C:
		}
		if err := e.follow(ctx); err != nil && ctx.Err() == nil {
			e.log.Error("what is stored could not be brought under the new encryption key; it goes on", "in", resealRetry.String(), "error", err)
			retry.Reset(resealRetry)
		}
	}
}

// follow seals everything with the newest key, and drops the keys that are to be forgotten.
func (e *encryption) follow(ctx context.Context) error {
	before, err := e.resealer.Resealing(ctx)
	if err != nil {
		return err
	}
	if !before.Done {
		e.log.Info("what is stored is brought under the new encryption key", "rows_left", before.Left)
		told := time.Now()
		var broken error
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		after, err := e.resealer.Reseal(ctx, func(now sqlstore.Resealing) {
			if time.Since(told) > resealTold {
				told = time.Now()
				e.log.Info("what is stored is brought under the new encryption key", "rows_left", now.Left)
			}
			if broken = e.between("page"); broken != nil {
				cancel()
			}
		})
		switch {
		case broken != nil:
			return broken
		case err != nil:
			return err
		case !after.Done:
			e.log.Error("some rows cannot be read and keep the old encryption key; it must stay in the key file", "rows", after.Unreadable)
			return nil
		}
		e.log.Info("everything that is stored is under the new encryption key")
	}
	if err := e.between("resealed"); err != nil {
		return err
	}
	return e.forget(ctx)
}

// forget removes the keys that are to be forgotten from the key file.
func (e *encryption) forget(ctx context.Context) error {
	if e.fixed != "" {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// A rotation may have added a key meanwhile. Its resealing needs the keys in the file.
	if now, err := e.resealer.Resealing(ctx); err != nil || !now.Done {
		return err
	}
	ring, err := seal.Read(e.file, "")
	if err != nil {
		return err
	}
	kept, some := ring.Forgotten()
	ids, err := idsOf(kept)
	if err != nil {
		return err
	}
	if !some {
		return e.note(ctx, "", ids)
	}
	if err := seal.Write(e.file, kept); err != nil {
		return err
	}
	if err := e.between("forgotten"); err != nil {
		return err
	}
	e.log.Info("old encryption keys have left the key file", "file", e.file)
	if err := e.adopt(ctx, kept); err != nil {
		return err
	}
	return e.note(ctx, "", ids)
}

// list lists the keys of the key file.
func (e *encryption) list(ctx context.Context, value string) ([]meshapi.Key, error) {
	if e == nil {
		return nil, nil
	}
	ring, err := seal.Read(e.file, value)
	if err != nil {
		return nil, err
	}
	keys, err := ring.Keys()
	if err != nil {
		return nil, err
	}
	now, err := e.resealer.Resealing(ctx)
	if err != nil {
		return nil, err
	}
	var out []meshapi.Key
	for i, id := range keys.IDs() {
		row := meshapi.Key{
			Kind: meshapi.KeysEncryption, Name: id, Purpose: "secrets in the database", Algorithm: "XChaCha20-Poly1305, HMAC-SHA256",
			State: keyActive, Next: "meshgate keys rotate " + meshapi.KeysEncryption,
		}
		if i > 0 {
			row.State, row.InUse, row.Next = "decrypts", resealed(now), "none: kept for backups"
			if ring.Forgets(i) {
				row.Next = "leaves the key file when nothing is left under it"
			}
		}
		out = append(out, row)
	}
	return out, nil
}

// resealed says how many rows still use old keys.
func resealed(now sqlstore.Resealing) string {
	switch {
	case now.Done:
		return "0 rows"
	case now.Left == 0 && now.Unreadable > 0:
		return counted(now.Unreadable, "unreadable row")
	}
	return counted(now.Left, "row") + " left"
}

// backupKeys returns a function that reads the key file for a backup and checks that it opens
// the database. The file is read after the database was copied, so that a key that was added
// meanwhile is in it.
func backupKeys(c *config.Store) func(ctx context.Context, database string) (string, error) {
	return func(ctx context.Context, database string) (string, error) {
		ring, err := seal.Read(c.Encryption.KeyFile, c.Encryption.Key)
		if err != nil {
			return "", fault.NotBegun(err)
		}
		keys, err := ring.Keys()
		if err != nil {
			return "", err
		}
		err = sqlstore.VerifyKey(ctx, database, keys)
		if errors.Is(err, sqlstore.ErrKey) {
			err = fault.NotBegun(fmt.Errorf("%w; the key is that of %s", err, keySource(c)))
		}
		return ring.Text(), err
	}
}

package assembly

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/meshgate/meshgate/controlplane/backup"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/oauth"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/notice"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// openStore opens the configured store. ctx is the context of the process.
func (cp *ControlPlane) openStore(ctx context.Context) (err error) {
	if cp.cfg.Store.Type == "memory" {
		cp.Log.Warn("the store is in memory: everything is forgotten at exit")
		cp.store = memstore.Open(memstore.Options{Retention: cp.retention(), Now: cp.clocks.wall.Now, Past: cp.clocks.wall.Earliest})
	} else if cp.store, err = cp.openDatabase(ctx); err != nil {
		return err
	}
	cp.encryption = newEncryption(&cp.cfg.Store, cp.store, cp.Log)
	if s, ok := cp.store.(store.Undecided); ok {
		// Parts that end wait for their undecided writes; the end of the process gives them
		// up.
		stop := context.AfterFunc(ctx, s.GiveUp)
		cp.closers.add(func(context.Context) { stop() })
	}
	if s, ok := cp.store.(store.Prober); ok {
		cp.ready.conditions.Probe(conditionStore, storeProbe(cp.ready.conditions, s))
	}
	cp.commits = notice.New(cp.meters.meter(cp.store))
	cp.store = cp.commits
	cp.closers.add(func(ctx context.Context) { cp.closeDatabase(ctx, "store", cp.store.Close) })
	return nil
}

// closeTime is how long a database may take to close although the time for the end is over. It
// is plenty for a disk that works.
const closeTime = time.Second

// closeDatabase closes a database. It does not wait for a disk that stalls longer than until ctx
// ends, or [closeTime]. The goroutine that is left behind then ends with the process, and so
// does the lock of the database, which close releases last: no successor opens a database that
// is still written to.
func (cp *ControlPlane) closeDatabase(ctx context.Context, name string, close func() error) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- close() }()
	for _, bound := range []context.Context{late, ctx} {
		select {
		case err := <-ended:
			if err != nil {
				cp.Log.Error("a database did not close", "database", name, "error", err)
			}
			return
		case <-bound.Done():
		}
	}
	cp.Log.Warn("the end of a database is not waited for: the disk takes too long, and the next start is as after a kill", "database", name)
}

// openDatabase opens the database with its key. It makes a key only for a new database. A new
// key beside an existing database would not open it, and would hide that the right key is
// lost.
func (cp *ControlPlane) openDatabase(ctx context.Context) (store.Store, error) {
	c := &cp.cfg.Store
	exists, err := sqlstore.Present(c.SQLite.Path)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", c.SQLite.Path, err)
	}
	open := seal.Load
	if !exists {
		open = seal.Make
		if _, err := os.Stat(c.Encryption.KeyFile); err == nil || c.Encryption.Key != "" { // the state directory may have been in use before
			cp.Log.Warn("there is an encryption key but no database: an empty one is made. If this is no new installation, stop and restore a backup",
				"key", keySource(c), "database", c.SQLite.Path)
		}
	}
	keys, err := open(c.Encryption.KeyFile, c.Encryption.Key)
	if errors.Is(err, fs.ErrNotExist) && exists {
		return nil, fmt.Errorf("database %s exists, but not the key that opens it: put the key file back at %s, or set %s; without the key the database is lost, and a new one must not be made beside it",
			c.SQLite.Path, c.Encryption.KeyFile, config.EnvName("store.encryption.key"))
	}
	if err != nil {
		return nil, fmt.Errorf("encryption key: %w", err)
	}
	s, err := sqlstore.Open(ctx, sqlstore.Options{
		Path: c.SQLite.Path, Claim: cp.held.main, Kinds: AllKinds(), Sealer: keys, Log: cp.Log, Retention: cp.retention(), Past: cp.clocks.wall.Earliest,
		// What is dated by a setting of the clock that is over in a moment must not be unknown to the clock.
		Now:    cp.clocks.wall.Now,
		Report: storeReport(cp.ready.conditions, c.SQLite.Path),
		Begin:  func(tx store.Tx) error { return revoke.NoteTime(tx, cp.clocks.wall) },
	})
	if errors.Is(err, sqlstore.ErrKey) {
		return nil, fmt.Errorf("database %s was written with another key than that of %s: put the right key there; nothing was changed", c.SQLite.Path, keySource(c))
	}
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", c.SQLite.Path, err)
	}
	return s, nil
}

// tokenSource returns the source of what the store knows about tokens. It uses the same clock
// as the store does to drop rows. With another clock that is ahead, it would refuse a token
// that still exists, that filters with a right clock accept, and that an operator can revoke.
// Filters decide by their own clocks when a token has ended.
func (cp *ControlPlane) tokenSource() *oauth.Source {
	return &oauth.Source{Store: cp.store, Resolver: cp.resolver, Now: cp.clocks.wall.Earliest}
}

// retention returns which change records are kept.
func (cp *ControlPlane) retention() store.Retention {
	return store.Retention{Age: cp.cfg.Changes.Keep, Rows: cp.cfg.Changes.Max}
}

// keySource says where the encryption key comes from, for people.
func keySource(c *config.Store) string {
	if c.Encryption.Key != "" {
		return "the setting store.encryption.key (environment " + config.EnvName("store.encryption.key") + ")"
	}
	return "the file " + c.Encryption.KeyFile
}

// statusPath returns the path of the status database, which lies beside the main one.
func statusPath(c *config.Config) string {
	return filepath.Join(filepath.Dir(c.Store.SQLite.Path), backup.StatusPart)
}

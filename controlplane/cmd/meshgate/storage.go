package main

import (
	"context"
	"fmt"

	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// openStore opens the configured store. ctx is that of the process.
func (cp *controlPlane) openStore(ctx context.Context) error {
	if cp.cfg.Store.Type == "memory" {
		cp.log.Warn("the store is in memory: everything is forgotten at exit")
		cp.store = memstore.New()
	} else {
		keys, err := seal.Load(cp.cfg.Store.Encryption.KeyFile, cp.cfg.Store.Encryption.Key)
		if err != nil {
			return fmt.Errorf("encryption key: %w", err)
		}
		cp.store, err = sqlstore.Open(ctx, sqlstore.Options{Path: cp.cfg.Store.SQLite.Path, Kinds: allKinds(), Sealer: keys, Log: cp.log})
		if err != nil {
			return fmt.Errorf("database %s: %w", cp.cfg.Store.SQLite.Path, err)
		}
	}
	if s, ok := cp.store.(store.Undecided); ok {
		cp.ready.checks = append(cp.ready.checks, s.Undecided)
		// Parts that end wait for their writes.
		stop := context.AfterFunc(ctx, s.GiveUp)
		cp.closers.add(func(context.Context) { stop() })
	}
	cp.closers.add(func(context.Context) {
		if err := cp.store.Close(); err != nil {
			cp.log.Error("the store did not close", "error", err)
		}
	})
	return nil
}

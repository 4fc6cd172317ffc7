package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/filelock"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// ErrStoodBy is the error of a start that ended while it waited for another control plane: it was told to.
var ErrStoodBy = errors.New("told to end while standing by")

// claims are the claims on the databases of a control plane that stands by. They are nil for one that does not:
// its databases are claimed when they are opened.
type claims struct{ main, status *sqlstore.Claim }

// standBy waits, if the settings say so, until no other control plane has the store. Nothing may be opened, nor
// read from the store, before.
func standBy(ctx context.Context, c *config.Config, log *slog.Logger) (claims, error) {
	if !c.Store.Standby {
		return claims{}, nil
	}
	var began time.Time
	main, err := sqlstore.AwaitClaim(ctx, c.Store.SQLite.Path, func(path string) {
		began = time.Now()
		log.Info(fmt.Sprintf("another control plane has the store %s; standing by", path))
	})
	if err != nil {
		return claims{}, stoodBy(ctx, fmt.Errorf("database %s: %w", c.Store.SQLite.Path, err))
	}
	// A process that was killed gives its locks back one after the other.
	status, err := sqlstore.AwaitClaim(ctx, statusPath(c), func(string) {})
	if err != nil {
		return claims{}, errors.Join(stoodBy(ctx, fmt.Errorf("database %s: %w", statusPath(c), err)), main.Close())
	}
	if !began.IsZero() {
		log.Info("the other control plane has ended; taking over", "store", c.Store.SQLite.Path, "after", time.Since(began).Round(time.Millisecond))
	}
	return claims{main, status}, nil
}

// stoodBy is the error of a wait.
func stoodBy(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ErrStoodBy
	}
	return fault.NotBegun(err)
}

// close gives back what was not used.
func (c claims) close() { _ = errors.Join(c.main.Close(), c.status.Close()) }

// AwaitStateDir is [ClaimStateDir] for a control plane, which waits for another one if the settings say so.
func AwaitStateDir(ctx context.Context, c *config.Config, log *slog.Logger) (*os.File, error) {
	if !c.Store.Standby {
		return ClaimStateDir(c.StateDir)
	}
	return claimStateDir(c.StateDir, func(f *os.File) error {
		err := filelock.Await(ctx, f, func() {
			log.Info(fmt.Sprintf("another meshgate has the state directory %s; standing by", c.StateDir))
		})
		if err != nil && ctx.Err() != nil {
			return ErrStoodBy
		}
		return err
	})
}

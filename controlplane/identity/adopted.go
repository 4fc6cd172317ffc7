package identity

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// adopted are the keys of one purpose as they are in the store, for all who use them.
type adopted[K any] struct {
	// mu makes changes one after the other, so that none adopts what another one has replaced.
	mu sync.Mutex
	atomic.Pointer[K]
}

// change runs fn in a transaction of the gate and adopts the result. Nothing is used before it is stored.
func (a *adopted[K]) change(ctx context.Context, w Writer, list func(store.Reader) (K, error), fn func(store.Tx, K) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var after K
	commit, err := w.Write(ctx, model.Config, func(tx store.Tx) error {
		keys, err := list(tx)
		if err == nil {
			err = fn(tx, keys)
		}
		if err == nil {
			after, err = list(tx)
		}
		return err
	})
	if len(commit.Changes) > 0 { // the commit stands, no matter what happened afterwards
		a.Store(&after)
	}
	return err
}

// eachKey calls fn for the stored keys whose names are a prefix and a serial. An error names the key with a
// format for the serial.
func eachKey(r store.Reader, prefix, naming string, fn func(serial string, res *model.Resource) error) error {
	all, err := r.List(Keys, store.Query{Part: prefix})
	if err != nil {
		return err
	}
	for _, res := range all {
		serial, ok := strings.CutPrefix(res.Name, prefix)
		if !ok || serialOf(serial) == 0 {
			continue
		}
		if err := fn(serial, res); err != nil {
			return fmt.Errorf(naming+": %w", serial, err)
		}
	}
	return nil
}

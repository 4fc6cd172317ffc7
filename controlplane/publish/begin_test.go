package publish

import (
	"context"
	"log/slog"
	"testing"

	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy/all"
)

// Begin runs a loop over a store until the test ends, and then closes the store. Views,
// policies and logs that the options leave open are those of the product. change, if not
// nil, is called with the loop before it runs.
func Begin(t *testing.T, db store.Store, o Options, change func(*Loop)) *Loop {
	t.Helper()
	o.Log, o.Latest = slog.New(slog.DiscardHandler), db.Revision
	if o.Views == nil {
		o.Views = view.New(db, all.Kinds(), o.Log)
	}
	if o.Policies == nil {
		o.Policies = all.Policies()
	}
	l := New(o)
	if change != nil {
		change(l)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		o.Views.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

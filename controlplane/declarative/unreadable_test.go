package declarative_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/declarative"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestUnreadableEntities: entities of a file that have become unreadable are created again
// from the file. Other unreadable entities must not be deleted.
func TestUnreadableEntities(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	keys, err := seal.New(make([]byte, seal.RootSize))
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return time.Unix(1700000000, 0) }
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{
		Path: path, Kinds: append(gateway.Kinds(), declarative.Kinds()...), Sealer: keys, Log: slog.New(slog.DiscardHandler), Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	w := &world{t: t, store: s, gate: admit.New(s, &admittest.Revoker{}, gateway.Kinds(), now).As(model.System("test"))}
	id := func(n int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", n) }
	file := `_format_version: "3.0"
services:
  - {id: ` + id(1) + `, name: a, host: h, routes: [{id: ` + id(2) + `, name: r, paths: [/]}]}
  - {id: ` + id(3) + `, name: b, host: h}
`
	w.mustLoad(file)
	want := regexp.MustCompile(`.*_at.*`).ReplaceAllString(w.dump(), "")
	for name, spoilt := range map[string]struct {
		kind *model.Kind
		id   string
	}{"an owner": {gateway.Services, id(1)}, "a referrer": {gateway.Routes, id(2)}, "one alone": {gateway.Services, id(3)}} {
		storetest.Spoil(t, path, spoilt.kind.Name, spoilt.id)
		w.mustLoad(file)
		if diff := cmp.Diff(want, regexp.MustCompile(`.*_at.*`).ReplaceAllString(w.dump(), "")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if c := w.mustLoad(file); len(c.Changes) != 0 {
			t.Errorf("%s: the same file changed something: %+v", name, c.Changes)
		}
	}
	if _, err := w.gate.Create(t.Context(), admit.Address{Kind: gateway.Services, Scope: model.DefaultControlPlane},
		admit.Input{Values: map[string]any{"id": id(9), "host": "h"}}); err != nil {
		t.Fatal(err)
	}
	storetest.Spoil(t, path, gateway.Services.Name, id(9))
	if _, err := w.load("file.yaml", file); !fault.Is(err, fault.Conflict) {
		t.Errorf("somebody else's: %v", err)
	}
}

package operator

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/assembly"
	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestChangesCommand prints what a mesh API answers.
func TestChangesCommand(t *testing.T) {
	moment := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := memstore.Open(memstore.Options{Now: func() time.Time { return moment }, Retention: store.Retention{Rows: 4}})
	defer func() { _ = s.Close() }()
	gate := admit.New(s, &admittest.Revoker{}, assembly.AllKinds(), time.Now)
	ctx := model.WithActor(t.Context(), model.User("ann\x1b[2J"))
	at := func(k *model.Kind, key string) admit.Address {
		return admit.Address{Kind: k, Scope: model.DefaultControlPlane, Key: key}
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(gate.Create(ctx, at(gateway.Services, ""), admit.Input{Values: map[string]any{"name": "lost", "host": "h"}}))
	must(gate.Create(ctx, at(gateway.Consumers, ""), admit.Input{Values: map[string]any{"username": "bob"}}))
	must(gate.Create(ctx, at(gateway.Keys, ""), admit.Input{Values: map[string]any{
		"id": "c0000000-0000-4000-8000-000000000000", "key": "hush", "consumer": map[string]any{"username": "bob"},
	}}))
	must(gate.Patch(ctx, at(gateway.Consumers, "bob"), admit.Input{Values: map[string]any{"custom_id": "7", "tags": []any{"a", "b", "c", "d", "e", "f"}}}))
	must(gate.Delete(ctx, at(gateway.Consumers, "bob")))
	api := httptest.NewServer(meshapi.Handler(meshapi.Options{Recorded: changes.Listed(assembly.AllKinds()), Store: s}))
	defer api.Close()
	show := func(query, output string) string {
		t.Helper()
		args := []string{"--address", api.URL, "-o", output}
		for _, parameter := range strings.Split(query, "&") {
			args = append(args, "--"+parameter)
		}
		out, err := clitest.Execute(t, ChangesCommand(), args...)
		if err != nil {
			return err.Error()
		}
		return out
	}
	for query, want := range map[string][]string{
		"size=2": {
			"REVISION TIME ACTOR ACTION KIND SCOPE NAME CHANGED",
			`5 2026-03-01 12:00:00 user:ann?[2J deleted consumer default bob`,
			`5 2026-03-01 12:00:00 user:ann?[2J deleted keyauth_credential default c0000000-0000-4000-8000-000000000000 with consumer bob`,
		},
		"since=1&size=1&kind=consumers": { // all pages
			"meshgate: changes after revision 1 up to 2 are no longer kept",
			"REVISION TIME ACTOR ACTION KIND SCOPE NAME CHANGED",
			`4 2026-03-01 12:00:00 user:ann?[2J updated consumer default bob /custom_id nothing -> "7", /tags/0 nothing -> "a", /tags/1 nothing -> "b", ` +
				`/tags/2 nothing -> "c", /tags/3 nothing -> "d", 2 more`,
			`5 2026-03-01 12:00:00 user:ann?[2J deleted consumer default bob`,
		},
		"size=2&kind=!keyauth_credential": {
			"REVISION TIME ACTOR ACTION KIND SCOPE NAME CHANGED",
			`5 2026-03-01 12:00:00 user:ann?[2J deleted consumer default bob`,
			`4 2026-03-01 12:00:00 user:ann?[2J updated consumer default bob /custom_id nothing -> "7", /tags/0 nothing -> "a", /tags/1 nothing -> "b", ` +
				`/tags/2 nothing -> "c", /tags/3 nothing -> "d", 2 more`,
		},
		"scope=nosuch&kind=route": { // printed separately from the table
			"meshgate: no change matches --kind route --scope nosuch",
			"REVISION TIME ACTOR ACTION KIND SCOPE NAME CHANGED",
		},
		"kind=!nothing": {`the control plane refuses that (400): kind: there is no kind "nothing"`},
		"kind=nothing":  {`the control plane refuses that (400): kind: there is no kind "nothing"`},
	} {
		var got []string
		for line := range strings.Lines(show(query, "table")) {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	if out := show("since=4&size=1", "json"); strings.Count(out, "\n") != 2 || !strings.Contains(out, `{"path":"/key","secret":true}`) {
		t.Error(out)
	}
}

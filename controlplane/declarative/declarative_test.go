package declarative_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/declarative"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/e2e/golden"
)

// kinds are the kinds in the files of testdata.
var kinds = []*model.Kind{gateway.Plugins, gateway.Routes, gateway.Services, gateway.Consumers, gateway.Applications, gateway.Keys}

type world struct {
	t     *testing.T
	store store.Store
	gate  *admit.Gate
}

func open(t *testing.T) *world {
	now := func() time.Time { return time.Unix(1700000000, 0) }
	s := memstore.Open(memstore.Options{Now: now})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{t: t, store: s, gate: admit.New(s, &admittest.Revoker{}, gateway.Kinds(), now).As(model.System("test"))}
}

// load does the same as a start.
func (w *world) load(name, text string) (store.Commit, error) {
	f, err := declarative.Parse(name, []byte(text), kinds)
	if err != nil {
		return store.Commit{}, err
	}
	if err := f.Resolve(w.gate, model.DefaultControlPlane); err != nil {
		return store.Commit{}, err
	}
	return f.Apply(context.Background(), w.gate, model.DefaultControlPlane)
}

func (w *world) mustLoad(text string) store.Commit {
	w.t.Helper()
	c, err := w.load("file.yaml", text)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// dump shows all entities.
func (w *world) dump() string {
	w.t.Helper()
	out := map[string]any{}
	err := w.store.View(context.Background(), func(r store.Reader) error {
		for _, k := range kinds {
			list, err := r.List(k, store.Query{Scope: model.DefaultControlPlane})
			if err != nil {
				return err
			}
			var shown []any
			for _, res := range list {
				entity, err := res.Show(time.Unix(1700000000, 0))
				if err != nil {
					return err
				}
				delete(entity, model.FieldUpdated)
				shown = append(shown, entity)
			}
			out[k.Path] = shown
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	raw, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		w.t.Fatal(err)
	}
	return string(raw) + "\n"
}

// TestFiles loads every file of testdata. The golden file beside it has the result, or all
// its problems. Valid files are loaded twice; the second time changes nothing.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".in")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w := open(t)
			var got string
			if _, err := w.load(name, string(text)); err != nil {
				got = err.Error() + "\n"
				if left := w.dump(); strings.Contains(left, `"id"`) {
					t.Errorf("a file with problems left something:\n%s", left)
				}
			} else {
				got = w.dump()
				if c := w.mustLoad(string(text)); len(c.Changes) != 0 {
					t.Errorf("the same file changed something: %+v", c.Changes)
				}
			}
			golden.Compare(t, strings.TrimSuffix(file, ".in")+".golden", []byte(got))
		})
	}
}

const head = "_format_version: \"3.0\"\n"

// TestChanges loads one file after the other into the same store.
func TestChanges(t *testing.T) {
	w := open(t)
	w.mustLoad(head + "services: [{name: a, host: a.example, routes: [{name: r, paths: [/a]}]}]\nconsumers: [{username: bob, keyauth_credentials: [{key: k1}]}]\n")
	for _, step := range []struct{ name, text, want string }{
		{"the service of a route is replaced", "services: [{name: b, host: a.example, routes: [{name: r, paths: [/a]}]}]\nconsumers: [{username: bob, keyauth_credentials: [{key: k1}]}]\n", "created service, updated route, deleted service, updated declarative_state"},
		{"an id is given", "services: [{id: 10000000-0000-4000-8000-000000000000, name: b, host: a.example, routes: [{name: r, paths: [/a]}]}]\nconsumers: [{username: bob, keyauth_credentials: [{key: k1}]}]\n", "deleted route, deleted service, created service, created route, updated declarative_state"},
		{"one field", "services: [{id: 10000000-0000-4000-8000-000000000000, name: b, host: b.example, routes: [{name: r, paths: [/a]}]}]\nconsumers: [{username: bob, keyauth_credentials: [{key: k1}]}]\n", "updated service, updated declarative_state"},
		{"a consumer goes, with all it has", "services: [{id: 10000000-0000-4000-8000-000000000000, name: b, host: b.example, routes: [{name: r, paths: [/a]}]}]\n", "deleted keyauth_credential, deleted consumer, updated declarative_state"},
		{"nothing", "services: []\n", "deleted route, deleted service, updated declarative_state"},
	} {
		t.Run(step.name, func(t *testing.T) {
			var got []string
			for _, c := range w.mustLoad(head + step.text).Changes {
				r := c.New
				if r == nil {
					r = c.Old
				}
				got = append(got, string(c.Op)+" "+r.Kind.Name)
			}
			if diff := cmp.Diff(step.want, strings.Join(got, ", ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestWhatIsNotOfAFileStays: entities that somebody created or changed through the API are
// neither deleted nor overwritten.
func TestWhatIsNotOfAFileStays(t *testing.T) {
	for _, path := range []string{"created", "changed"} {
		t.Run(path, func(t *testing.T) {
			w := open(t)
			text := head + "consumers: [{username: bob}]\n"
			if path == "changed" {
				w.mustLoad(text)
			}
			address := admit.Address{Kind: gateway.Consumers, Scope: model.DefaultControlPlane, Key: "bob"}
			if _, err := w.gate.Replace(context.Background(), address, admit.Input{Values: map[string]any{"custom_id": "precious"}}); err != nil {
				t.Fatal(err)
			}
			_, err := w.load("f", text)
			if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "1 entities that did not come from a declarative file (consumer/") {
				t.Errorf("error %v", err)
			}
			if !strings.Contains(w.dump(), "precious") {
				t.Errorf("it is lost:\n%s", w.dump())
			}
		})
	}
}

// FuzzParse: any text at most causes a list of problems, with lines that exist in the text.
func FuzzParse(f *testing.F) {
	f.Add(head + "services: [{name: a, host: b, routes: [{paths: [/]}]}]")
	f.Add("a: &a [*a]")
	f.Add("{\"_format_version\": \"3.0\",\n\t\"consumers\": [\"bob\"]}")
	f.Add("? [x]\n: y\n")
	f.Add(head + "plugins: [{name: key-auth, config: {key_names: [1]}, route: x}]")
	f.Fuzz(func(t *testing.T, text string) {
		w := open(t)
		_, err := w.load("f", text)
		if err == nil {
			return
		}
		lines := strings.Count(strings.ReplaceAll(text, "\r", "\n"), "\n") + 2
		if p, ok := err.(*declarative.Problems); ok { //nolint:errorlint // never wrapped
			for _, one := range p.List {
				if one.Line < 1 || one.Line > lines {
					t.Errorf("line %d of %d: %s", one.Line, lines, one.Message)
				}
			}
		}
	})
}

// TestAnonymousConsumersChange: a file may change the name or the id of the consumer that a
// plugin names, which other writers must not do.
func TestAnonymousConsumersChange(t *testing.T) {
	w := open(t)
	file := func(id, name string) string {
		return head + "consumers: [{id: " + id + ", username: " + name + "}]\nplugins: [{name: key-auth, config: {anonymous: " + name + "}}]\n"
	}
	const one, two = "10000000-0000-4000-8000-000000000000", "20000000-0000-4000-8000-000000000000"
	for _, text := range []string{file(one, "a"), file(one, "b"), file(two, "b"), head + "consumers: []\n"} {
		w.mustLoad(text)
	}
}

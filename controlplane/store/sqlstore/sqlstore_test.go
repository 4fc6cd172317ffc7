package sqlstore_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		os.Exit(child(path))
	}
	goleak.VerifyTestMain(m)
}

func keys(t testing.TB, fill byte) *seal.Keys {
	t.Helper()
	k, err := seal.New(bytes.Repeat([]byte{fill}, seal.RootSize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// options returns options of a store that logs into the test's log.
func options(t testing.TB, path string) sqlstore.Options {
	t.Helper()
	return sqlstore.Options{
		Path: path, Kinds: storetest.Kinds(), Sealer: keys(t, 1), History: storetest.History,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

func open(t testing.TB, o sqlstore.Options) store.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closeStore(t, s)
		if odd, err := sameEntries(context.Background(), o.Path); odd != "" || err != nil {
			t.Errorf("index entries differ from what rows say: %s, %v", odd, err)
		}
	})
	return s
}

func closeStore(t testing.TB, s store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) (store.Store, func() store.Store) {
		path := filepath.Join(t.TempDir(), "meshgate.db")
		s := open(t, options(t, path))
		return s, func() store.Store {
			closeStore(t, s)
			s = open(t, options(t, path))
			return s
		}
	})
}

func box(name string, n int) *model.Resource {
	return &model.Resource{Kind: storetest.Box, Scope: "s", Name: name, Spec: &storetest.Item{N: n}}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "meshgate.db")
	held := options(t, filepath.Join(dir, "held.db"))
	open(t, held)
	s := open(t, options(t, path))
	closeStore(t, s)
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(path string, change func(*sqlstore.Options)) sqlstore.Options {
		o := options(t, path)
		change(&o)
		return o
	}
	for name, c := range map[string]struct {
		o    sqlstore.Options
		want string
	}{
		"the wrong key":      {with(path, func(o *sqlstore.Options) { o.Sealer = keys(t, 2) }), "encryption key"},
		"no key for secrets": {with(path, func(o *sqlstore.Options) { o.Sealer = nil }), "no key"},
		"no key for the file": {with(path, func(o *sqlstore.Options) {
			o.Sealer, o.Kinds = nil, []*model.Kind{storetest.Box}
		}), "no key"},
		"a file in use":   {held, "another process"},
		"another file":    {options(t, text), "not a database"},
		"no directory":    {options(t, filepath.Join(dir, "none", "x.db")), "no such file"},
		"a kind twice":    {with(path, func(o *sqlstore.Options) { o.Kinds = append(o.Kinds, storetest.Box) }), "twice"},
		"an unknown kind": {with(path, func(o *sqlstore.Options) { o.Kinds = []*model.Kind{storetest.Badge} }), "unknown kind person"},
		"a status kind": {with(path, func(o *sqlstore.Options) {
			o.Kinds = []*model.Kind{{Name: "status", Class: model.Status}}
		}), "class"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := sqlstore.Open(t.Context(), c.o)
			if err == nil {
				closeStore(t, s)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, c.want)
			}
		})
	}
	// None of the refused attempts did any harm.
	open(t, options(t, path))
}

func TestFileModes(t *testing.T) {
	dir := t.TempDir()
	s := open(t, options(t, filepath.Join(dir, "a?b %20#c.db")))
	if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(box("a", 1))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Name())
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
	if len(got) != 4 || got[0] != "a?b %20#c.db" {
		t.Errorf("files: %q", got)
	}
}

// TestNoPlainSecrets looks for secrets in every file of a store.
func TestNoPlainSecrets(t *testing.T) {
	dir := t.TempDir()
	s := open(t, options(t, filepath.Join(dir, "meshgate.db")))
	secrets := map[string]string{
		"client secret": "cs-4f1c9d0e77", "access token": "at-90aa1b2c3d", "refresh token": "rt-55e6f70819", "provision key": "pk-0badcafe12",
		"digest of the access token": gateway.TokenKey("at-90aa1b2c3d"),
	}
	put := func(k *model.Kind, name string, spec any) *model.Resource {
		return &model.Resource{Kind: k, Scope: model.DefaultControlPlane, Name: name, Spec: spec}
	}
	if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		for _, r := range []*model.Resource{
			put(gateway.Consumers, "con", &gateway.Consumer{Username: "ann"}),
			put(gateway.Applications, "app", &gateway.Application{Consumer: "con", ClientID: "visible-client", ClientSecret: secrets["client secret"]}),
			put(gateway.Tokens, "tok", &gateway.Token{Credential: "app", AccessToken: secrets["access token"], RefreshToken: secrets["refresh token"]}),
			put(gateway.Plugins, "pl", &gateway.Plugin{Name: "oauth2", Config: []byte(`{"provision_key":"` + secrets["provision key"] + `"}`)}),
		} {
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	look := func(when string) {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		var all []byte
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b...)
		}
		if !bytes.Contains(all, []byte("visible-client")) {
			t.Errorf("%s: the files do not even hold what is in clear", when)
		}
		for what, secret := range secrets {
			if bytes.Contains(all, []byte(secret)) {
				t.Errorf("%s: the files hold the %s", when, what)
			}
		}
	}
	look("in the log")
	closeStore(t, s)
	look("in the file")
}

// TestNewIndexesAreBuilt opens a database with kinds that have more indexes.
func TestNewIndexesAreBuilt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	kind := func() *model.Kind {
		k := *storetest.Box
		k.Unique, k.Lists = nil, nil
		return &k
	}
	old := kind()
	o := options(t, path)
	o.Kinds = []*model.Kind{old}
	s := open(t, o)
	if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		for i := range 3 {
			spec := &storetest.Item{Label: fmt.Sprint("l", i), Tags: []string{"x"}}
			if _, err := tx.Create(&model.Resource{Kind: old, Scope: "s", Name: fmt.Sprint(i), Spec: spec}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	next := *storetest.Box
	next.Sealed = true
	o.Kinds = []*model.Kind{&next}
	s = open(t, o)
	if err := s.View(t.Context(), func(r store.Reader) error {
		found, err := r.Find(&next, "s", "label", "l1")
		if err != nil || found.Name != "1" || found.Version != 1 {
			t.Errorf("Find: %+v, %v", found, err)
		}
		n, err := r.Count(&next, store.Query{Scope: "s", Index: "tags", Value: "x"})
		if n != 3 {
			t.Errorf("Count = %d", n)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestReadThenWrite makes the load under which a store with several writing connections fails
// with SQLITE_BUSY_SNAPSHOT, whatever its timeout.
func TestReadThenWrite(t *testing.T) {
	t.Parallel()
	s := open(t, options(t, filepath.Join(t.TempDir(), "meshgate.db")))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	const writers = 50
	var wg sync.WaitGroup
	var done atomic.Int64
	for w := range writers {
		name := fmt.Sprint(w % 5)
		class := model.Credential
		if w%10 == 0 {
			class = model.Config
		}
		wg.Go(func() {
			for ctx.Err() == nil || done.Load() < writers {
				_, err := s.Update(t.Context(), class, func(tx store.Tx) error {
					r := &model.Resource{Kind: storetest.Quiet, Scope: "s", Name: name, Spec: &storetest.Item{}}
					old, err := tx.Get(storetest.Quiet, "s", name)
					if fault.Is(err, fault.NotFound) {
						_, err = tx.Create(r)
						return err
					}
					if err != nil {
						return err
					}
					r.Spec = &storetest.Item{N: old.Spec.(*storetest.Item).N + 1}
					_, err = tx.Update(r, old.Version)
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	var total int64
	if err := s.View(t.Context(), func(r store.Reader) error {
		list, err := r.List(storetest.Quiet, store.Query{Scope: "s"})
		for _, q := range list {
			total += int64(q.Version)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if total != done.Load() || total < writers {
		t.Errorf("%d writes were acknowledged, %d are there", done.Load(), total)
	}
	t.Logf("%d transactions", total)
}

// TestGiveUpWaiting: a caller that waits behind a long transaction can leave, and its own
// transaction does not run later.
func TestGiveUpWaiting(t *testing.T) {
	s := open(t, options(t, filepath.Join(t.TempDir(), "meshgate.db")))
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		left := make(chan error)
		go func() {
			_, err := s.Update(ctx, model.Config, func(tx store.Tx) error {
				_, err := tx.Create(box("late", 1))
				return err
			})
			left <- err
		}()
		cancel()
		if err := <-left; err != context.Canceled { //nolint:errorlint // as it is
			t.Errorf("left with %v", err)
		}
		_, err := tx.Create(box("first", 1))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.View(t.Context(), func(r store.Reader) error {
		n, err := r.Count(storetest.Box, store.Query{Scope: "s"})
		if n != 1 {
			t.Errorf("%d boxes", n)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

package dryrun_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/dryrun"
	"github.com/meshgate/meshgate/controlplane/dryrun/dryruntest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const meshName = "m"

// world is a mesh with proxies that serve one service each and call the others.
type world struct {
	testing.TB
	*dryruntest.Rig
	db   *delayed
	gate *admit.Gate
	ctx  context.Context
}

func newWorld(t testing.TB, proxies, services int) *world {
	t.Helper()
	db := &delayed{Store: memstore.New()}
	t.Cleanup(func() { _ = db.Close() })
	kinds := slices.Concat(mesh.Kinds(), all.Kinds(), gateway.Kinds())
	w := &world{TB: t, Rig: dryruntest.New(t, db), db: db, gate: admit.New(db, &admittest.Revoker{}, kinds, time.Now)}
	w.ctx = model.WithActor(t.Context(), model.Administrator())
	w.must(w.write(w.ctx, func(tx store.Tx) error {
		list := []*model.Resource{{Kind: mesh.Meshes, Name: meshName, Spec: &mesh.Mesh{}}}
		for _, d := range all.Defaults() {
			list = append(list, &model.Resource{Kind: d.Kind, Scope: meshName, Name: d.Prefix + meshName, Spec: d.Spec()})
		}
		for i := range proxies {
			list = append(list, &model.Resource{Kind: mesh.Dataplanes, Scope: meshName, Name: proxy(i), Spec: dataplane(i, services)})
		}
		for _, r := range list {
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	}))
	for i := range proxies {
		w.Connect(t, mesh.NodeID(meshName, proxy(i)))
	}
	if proxies > 0 {
		w.Settle(t)
	}
	return w
}

// delayed is a store whose readers wait while it is locked.
type delayed struct {
	store.Store
	sync.RWMutex
	// read counts how often the last transaction has read all dataplanes.
	read int
}

// Update implements store.Store.
func (d *delayed) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	return d.Store.Update(ctx, class, func(tx store.Tx) error {
		d.read = 0
		return fn(countedTx{tx, d})
	})
}

type countedTx struct {
	store.Tx
	d *delayed
}

func (c countedTx) List(k *model.Kind, q store.Query) ([]*model.Resource, error) {
	if k == mesh.Dataplanes {
		c.d.read++
	}
	return c.Tx.List(k, q)
}

// View implements store.Store.
func (d *delayed) View(ctx context.Context, fn func(store.Reader) error) error {
	d.RLock()
	defer d.RUnlock()
	return d.Store.View(ctx, fn)
}

func proxy(i int) string { return fmt.Sprintf("d-%04d", i) }

// dataplane is one of many. It calls up to five services.
func dataplane(i, services int) *mesh.Dataplane {
	d := &mesh.Dataplane{Networking: &mesh.Networking{Address: fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250), Inbound: []mesh.Inbound{{
		Port: 8080, Tags: mesh.Tags{mesh.TagService: fmt.Sprintf("s-%d", i%services), mesh.TagProtocol: "http"},
	}}}}
	for j := range min(5, services-1) {
		d.Networking.Outbound = append(d.Networking.Outbound, mesh.Outbound{Port: uint32(10001 + j), Tags: mesh.Tags{mesh.TagService: fmt.Sprintf("s-%d", (i+1+j)%services)}})
	}
	return d
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(ctx context.Context, fn func(store.Tx) error) error {
	_, err := w.gate.Write(ctx, model.Config, fn)
	return err
}

// put returns a write of a document.
func put(k *model.Kind, name string, spec any) func(store.Tx) error {
	return func(tx store.Tx) error {
		r := &model.Resource{Kind: k, Scope: meshName, Name: name, Spec: spec}
		if k.Scoping == model.Global {
			r.Scope = ""
		}
		if _, err := tx.Get(k, r.Scope, name); err == nil {
			_, err = tx.Update(r, 0)
			return err
		}
		_, err := tx.Create(r)
		return err
	}
}

// try tries a write, which must succeed and change nothing.
func (w *world) try(fn func(store.Tx) error) *dryrun.Answer {
	w.Helper()
	before := w.db.Revision()
	a, err := w.Run(w.ctx, func(ctx context.Context) error { return w.write(ctx, fn) })
	w.must(err)
	if w.db.Revision() != before || a.Revision != before || !a.DryRun {
		w.Fatalf("the store was at %d, and is at %d; %+v", before, w.db.Revision(), a)
	}
	return a
}

func breaker(service string, connections uint32) *circuitbreaker.Spec {
	return &circuitbreaker.Spec{Connection: mesh.Connection{
		Sources: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: mesh.AnyValue}}}, Destinations: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: service}}},
	}, Conf: &circuitbreaker.Conf{Thresholds: &circuitbreaker.Thresholds{MaxConnections: &connections}}}
}

// TestNodesWithOneFateAreTogether: replicas of a service are listed once, with what becomes of
// them.
func TestNodesWithOneFateAreTogether(t *testing.T) {
	w := newWorld(t, 9, 3)
	a := w.try(put(circuitbreaker.Kind, "b", breaker("s-1", 7)))
	if a.Verdict != dryrun.Updated || a.Nodes != (dryrun.Counts{Compared: 9, Changed: 6}) || len(a.Changes) != 1 || a.Cut != nil {
		t.Fatalf("%+v", a)
	}
	c := a.Changes[0]
	want := []string{"m.d-0000", "m.d-0002", "m.d-0003", "m.d-0005", "m.d-0006", "m.d-0008"} // all that call it
	if !slices.Equal(c.Nodes, want) || c.Count != 6 || c.Kind != "sidecar" || len(c.Resources) != 1 {
		t.Fatalf("%+v", c)
	}
	r := c.Resources[0]
	if r.Change != "changed" || len(r.Diff) != 4 || r.Diff[0].Path != "/circuitBreakers/thresholds/0/maxConnections" || string(r.Diff[0].Value) != "7" {
		t.Errorf("%+v", r)
	}
}

// TestConfigurationsAreForAdministrators: who is none hears what the write would come to and how many
// nodes it would change, and nothing of what is configured.
func TestConfigurationsAreForAdministrators(t *testing.T) {
	w := newWorld(t, 9, 3)
	bad := dataplane(1, 3)
	bad.Networking.Outbound[0].Address = "no address"
	both := func(tx store.Tx) error {
		return errors.Join(put(circuitbreaker.Kind, "b", breaker("s-1", 7))(tx), put(mesh.Dataplanes, proxy(1), bad)(tx),
			tx.Delete(mesh.Dataplanes, meshName, proxy(8), 0))
	}
	all := w.try(both)
	if all.Withheld != "" || len(all.Writes) == 0 || len(all.Changes) == 0 || len(all.Problems) == 0 || len(all.Follows) == 0 {
		t.Fatalf("an administrator sees %+v", all)
	}
	for _, who := range []model.Actor{model.User("ann", "team-a"), model.Anonymous(), {Kind: model.ActorToken, Name: "t"}, model.Node("m.d-0000")} {
		w.ctx = model.WithActor(t.Context(), who)
		a := w.try(both)
		if a.Withheld == "" || len(a.Writes)+len(a.Changes)+len(a.Problems)+len(a.Follows) > 0 || a.Cut != nil {
			t.Errorf("%s sees %+v", who, a)
		}
		if a.Nodes != all.Nodes || a.Verdict != all.Verdict {
			t.Errorf("%s hears of %+v, %s, an administrator of %+v, %s", who, a.Nodes, a.Verdict, all.Nodes, all.Verdict)
		}
		text, err := json.Marshal(a)
		w.must(err)
		for _, told := range []string{"maxConnections", "no address", "d-000"} {
			if strings.Contains(string(text), told) {
				t.Errorf("%s sees %s: %s", who, told, text)
			}
		}
	}
}

// TestOnlySomeAreCompared: if there are too many, whoever is written is compared, and one of each
// service.
func TestOnlySomeAreCompared(t *testing.T) {
	w := newWorld(t, 9, 3)
	w.MaxNodes = 4
	d := dataplane(5, 3)
	d.Networking.Inbound[0].Port = 8081
	a := w.try(put(mesh.Dataplanes, proxy(5), d))
	if a.Nodes.Compared != 4 || a.Nodes.Omitted != 5 {
		t.Fatalf("%+v", a.Nodes)
	}
	var nodes []string
	for _, c := range a.Changes {
		nodes = append(nodes, c.Nodes...)
	}
	slices.Sort(nodes)
	if !slices.Equal(nodes, []string{"m.d-0000", "m.d-0001", "m.d-0005"}) { // d-0002 serves the same, and does not call it
		t.Errorf("%v", nodes)
	}
}

// TestWhatCannotBeMade: a write that cannot be planned says so, and whether it was so before.
func TestWhatCannotBeMade(t *testing.T) {
	w := newWorld(t, 2, 2)
	bad := dataplane(1, 2)
	bad.Networking.Outbound[0].Address = "no address"
	a := w.try(put(mesh.Dataplanes, proxy(1), bad))
	if len(a.Problems) != 1 || a.Problems[0].Already || a.Problems[0].Mesh != meshName || a.Problems[0].Nodes != 1 || a.Problems[0].Error == "" {
		t.Fatalf("%+v", a.Problems)
	}
	w.must(w.write(w.ctx, put(mesh.Dataplanes, proxy(1), bad)))
	w.Settle(t)
	failures := w.Loop.Failures()
	if len(failures) != 1 || failures[0].Cell != a.Problems[0].Resource || failures[0].Err.Error() != a.Problems[0].Error {
		t.Errorf("foretold was %+v, and there is %+v", a.Problems, failures)
	}
	bad.Networking.Inbound[0].Port = 8082
	if a := w.try(put(mesh.Dataplanes, proxy(1), bad)); len(a.Problems) != 1 || !a.Problems[0].Already {
		t.Errorf("%+v", a.Problems)
	}
	if a := w.try(put(mesh.Dataplanes, proxy(1), dataplane(1, 2))); len(a.Problems) != 0 {
		t.Errorf("%+v", a.Problems)
	}
}

// TestViewsThatAreLate: where a view shows an older state than the transaction has, its state is
// read in the transaction in the end, once.
func TestViewsThatAreLate(t *testing.T) {
	w := newWorld(t, 4, 2)
	calls := 0
	a, err := w.Run(w.ctx, func(ctx context.Context) error {
		calls++
		w.db.Lock() // nobody sees the write of somebody else before this one is undone
		defer w.db.Unlock()
		d := dataplane(3, 2)
		d.Networking.Inbound[0].Port = uint32(9000 + calls)
		if err := w.write(w.ctx, put(mesh.Dataplanes, proxy(3), d)); err != nil {
			return err
		}
		return w.write(ctx, put(circuitbreaker.Kind, "b", breaker("s-1", 7)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if w.db.read != 1 {
		t.Errorf("the dataplanes were read %d times while the store was locked", w.db.read)
	}
	if calls != 4 || a.Nodes != (dryrun.Counts{Compared: 4, Changed: 2}) || a.Revision != w.db.Revision() {
		t.Errorf("after %d attempts: %+v, %d", calls, a, w.db.Revision())
	}
}

// TestOthersWriteMeanwhile: the writer's lock is free while a dry run plans. Only so many are made
// at the same time, and whoever is too many is told to come again.
func TestOthersWriteMeanwhile(t *testing.T) {
	w := newWorld(t, 2, 2)
	w.Turns, w.Others = turns.Sized(1, 0), turns.Sized(1, 0)
	tried, written := make(chan struct{}), make(chan error, 1)
	w.Planning(func() {
		close(tried)
		if err := <-written; err != nil {
			t.Error(err)
		}
	})
	done := make(chan error, 1)
	go func() {
		_, err := w.Run(w.ctx, func(ctx context.Context) error { return w.write(ctx, put(circuitbreaker.Kind, "b", breaker("s-1", 7))) })
		done <- err
	}()
	<-tried
	if _, err := w.Run(w.ctx, func(context.Context) error { t.Error("it was written"); return nil }); !errors.Is(err, turns.ErrFull) {
		t.Errorf("a second: %v", err)
	}
	bounded, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	written <- w.write(bounded, put(circuitbreaker.Kind, "b", breaker("s-1", 8)))
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestNobodyWaitsForEver: a dry run whose time is over is Unavailable, also where it only waits for
// its turn, or where the write ends because of it. The error says when to ask again.
func TestNobodyWaitsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &dryrun.Runner{Latest: func() uint64 { return 1 }, Turns: turns.Sized(1, 1), Others: turns.Sized(1, 1)}
		first := make(chan error, 1)
		begun := time.Now()
		stuck := func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("the store: %w", ctx.Err())
		}
		go func() {
			_, err := r.Run(t.Context(), stuck)
			first <- err
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		if _, err := r.Run(t.Context(), stuck); !fault.Is(err, fault.Unavailable) || fault.AfterOf(err) == 0 || time.Since(begun) > time.Second+dryrun.Patience {
			t.Errorf("the second after %s: %v", time.Since(begun), err)
		}
		if err := <-first; !fault.Is(err, fault.Unavailable) || fault.AfterOf(err) == 0 {
			t.Errorf("the first: %v", err)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := r.Run(gone, stuck); fault.Is(err, fault.Unavailable) && !errors.Is(err, context.Canceled) {
			t.Errorf("of a caller that has gone: %v", err)
		}
	})
}

// TestOthersKeepNoAdministratorWaiting: dry runs of callers who are no administrators have places of
// their own. A role of the settings or of an access token makes an administrator, too.
func TestOthersKeepNoAdministratorWaiting(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.Turns, w.Others = turns.Sized(1, 0), turns.Sized(1, 0)
	entered, leave, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	w.Rules = access.New(access.Options{Roles: []access.Role{{Role: "admin", All: true, Users: []string{"bob"}}, {Role: "admin", Meshes: []string{"m"}, Users: []string{"ann"}}}})
	ann := model.WithActor(w.ctx, model.User("ann"))
	go func() {
		_, err := w.Run(ann, func(context.Context) error {
			close(entered)
			<-leave
			return nil
		})
		done <- err
	}()
	<-entered
	again := func(ctx context.Context) error {
		_, err := w.Run(ctx, func(ctx context.Context) error { return w.write(ctx, put(circuitbreaker.Kind, "b", breaker("s-1", 7))) })
		return err
	}
	if err := again(w.ctx); err != nil {
		t.Errorf("an administrator: %v", err)
	}
	for name, who := range map[string]model.Actor{
		"by a role of the settings": model.User("bob"), "by an access token": model.User("token:ci").Holding(model.OwnRole{Role: "admin"}),
	} {
		if err := again(model.WithActor(w.ctx, who)); err != nil {
			t.Errorf("an administrator %s: %v", name, err)
		}
	}
	if err := again(ann); !errors.Is(err, turns.ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestErrorsAreThoseOfTheWrite: nothing is added to them.
func TestErrorsAreThoseOfTheWrite(t *testing.T) {
	w := newWorld(t, 1, 1)
	mine := fault.New(fault.Conflict, "mine")
	_, err := w.Run(w.ctx, func(ctx context.Context) error {
		return w.write(ctx, func(tx store.Tx) error {
			if err := put(mesh.Dataplanes, "new", dataplane(1, 1))(tx); err != nil {
				return err
			}
			return mine
		})
	})
	if !errors.Is(err, mine) {
		t.Errorf("%v", err)
	}
}

// TestLargeAnswers: what does not fit is counted. The rest is whole.
func TestLargeAnswers(t *testing.T) {
	w := newWorld(t, 3, 3)
	a := w.try(func(tx store.Tx) error {
		for i := range 3 {
			d := dataplane(i, 3)
			for j := range 800 {
				d.Networking.Outbound = append(d.Networking.Outbound, mesh.Outbound{Port: uint32(20001 + j), Tags: mesh.Tags{mesh.TagService: "s-" + fmt.Sprint((i+1)%3)}})
			}
			if err := put(mesh.Dataplanes, proxy(i), d)(tx); err != nil {
				return err
			}
		}
		return nil
	})
	listed, cut, bytes := 0, 0, 0
	for _, c := range a.Changes {
		listed += len(c.Resources)
		for _, r := range c.Resources {
			if r.Cut {
				cut++
			}
			for _, e := range r.Diff {
				bytes += len(e.Value)
			}
		}
	}
	if a.Cut == nil || listed != 2000 || a.Cut.Resources == 0 || a.Cut.Differences != cut || cut == 0 || bytes > 1<<20 || bytes < 1<<19 {
		t.Errorf("%d resources, %d without a difference, %d bytes, and cut is %+v", listed, cut, bytes, a.Cut)
	}
}

// TestWhoIsShownWhat: whoever administrates all that a write concerns sees what it would do.
func TestWhoIsShownWhat(t *testing.T) {
	w := newWorld(t, 3, 3)
	w.Rules = access.New(access.Options{Roles: []access.Role{
		{Role: "admin", Meshes: []string{meshName}, Users: []string{"ada"}},
		{Role: "editor", Meshes: []string{meshName}, Users: []string{"ed"}},
		{Role: "admin", Meshes: []string{"other"}, Users: []string{"olga"}},
		{Role: "admin", All: true, Users: []string{"paul"}},
	}})
	here := put(circuitbreaker.Kind, "b", breaker("s-1", 7))
	there := func(tx store.Tx) error {
		if err := here(tx); err != nil {
			return err
		}
		_, err := tx.Create(&model.Resource{Kind: mesh.Meshes, Name: "other", Spec: &mesh.Mesh{}})
		return err
	}
	for user, want := range map[string][2]bool{"ada": {true, false}, "ed": {}, "olga": {}, "paul": {true, true}, "nobody": {}} {
		for i, write := range []func(store.Tx) error{here, there} {
			w.ctx = model.WithActor(t.Context(), model.User(user))
			a := w.try(write)
			if shown := a.Withheld == "" && len(a.Writes) > 0 && len(a.Changes) > 0; shown != want[i] || !shown && (a.Withheld == "" || len(a.Writes)+len(a.Changes)+len(a.Problems) > 0) {
				t.Errorf("%s, %d: %+v", user, i, a)
			}
		}
	}
	w.Rules, w.ctx = nil, model.WithActor(t.Context(), model.User("ada"))
	if a := w.try(here); a.Withheld == "" {
		t.Error("without rules somebody else than an administrator sees it")
	}
}

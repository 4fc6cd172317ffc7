package identity

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/big"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// fakeProgress is a fleet whose proxies confirm when the test says so.
type fakeProgress struct {
	mu sync.Mutex
	// confirmed holds the connected dataplanes by mesh and name.
	confirmed map[string]map[string]uint64
	moved     chan struct{}
	fail      error
	// onConnected run before Connected answers, one in each call.
	onConnected []func()
}

func newFakeProgress() *fakeProgress {
	return &fakeProgress{confirmed: map[string]map[string]uint64{}, moved: make(chan struct{})}
}

func (p *fakeProgress) Confirmed(ctx context.Context, meshName string, revision uint64) error {
	for {
		p.mu.Lock()
		all, moved, fail := true, p.moved, p.fail
		for _, at := range p.confirmed[meshName] {
			all = all && at >= revision
		}
		p.mu.Unlock()
		if all || fail != nil {
			return fail
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		}
	}
}

func (p *fakeProgress) Connected(meshName string) map[string]bool {
	p.mu.Lock()
	f := func() {}
	if len(p.onConnected) > 0 {
		f, p.onConnected = p.onConnected[0], p.onConnected[1:]
	}
	p.mu.Unlock()
	f()
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]bool{}
	for name := range p.confirmed[meshName] {
		out[name] = true
	}
	return out
}

func (p *fakeProgress) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.moved)
	p.moved = make(chan struct{})
}

// confirm connects a dataplane and says what it has confirmed.
func (p *fakeProgress) confirm(meshName, dataplane string, revision uint64) {
	p.change(func() {
		if p.confirmed[meshName] == nil {
			p.confirmed[meshName] = map[string]uint64{}
		}
		p.confirmed[meshName][dataplane] = revision
	})
}

func (p *fakeProgress) disconnect(meshName, dataplane string) {
	p.change(func() { delete(p.confirmed[meshName], dataplane) })
}

// warnings counts what is logged as a warning or worse.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) Enabled(context.Context, slog.Level) bool { return true }
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler       { return w }
func (w *warnings) WithGroup(string) slog.Handler            { return w }
func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.texts = append(w.texts, r.Message)
	}
	return nil
}

func (w *warnings) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.texts)
}

// rotationTest drives rotations inside a bubble.
type rotationTest struct {
	t        testing.TB
	store    store.Store
	progress *fakeProgress
	log      *warnings
	r        *Rotations
	stop     func()
	// leaves are by issuer, one for each authority made.
	leaves map[string]*x509.Certificate
	// history are the distinct trusts of mesh m, as seen.
	history []*mesh.Trust
	// now is called for every reading of the clock.
	now func() time.Time
}

func newRotationTest(t testing.TB, s store.Store) *rotationTest {
	rt := &rotationTest{t: t, store: s, progress: newFakeProgress(), log: &warnings{}, leaves: map[string]*x509.Certificate{}, now: time.Now}
	rt.start()
	return rt
}

// start is a new process over the same store.
func (rt *rotationTest) start() {
	rt.r = NewRotations(Options{
		Store: rt.store, Progress: rt.progress, Now: func() time.Time { return rt.now() }, Log: slog.New(rt.log),
		LeafLife: func(*mesh.Authority) time.Duration { return WorkloadLife },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- rt.r.Run(ctx) }()
	rt.stop = func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			rt.t.Errorf("Run ended with %v", err)
		}
	}
}

func (rt *rotationTest) close() {
	rt.stop()
	_ = rt.store.Close()
}

func (rt *rotationTest) must(err error) {
	rt.t.Helper()
	if err != nil {
		rt.t.Fatal(err)
	}
}

// set writes a resource, or deletes it if spec is nil.
func (rt *rotationTest) set(k *model.Kind, scope, name string, spec any) {
	rt.t.Helper()
	_, err := rt.store.Update(context.Background(), model.Config, func(tx store.Tx) error {
		if spec == nil {
			return tx.Delete(k, scope, name, 0)
		}
		res := &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
		if _, err := tx.Update(res, 0); !fault.Is(err, fault.NotFound) {
			return err
		}
		_, err := tx.Create(res)
		return err
	})
	rt.must(err)
}

func (rt *rotationTest) builtin(name string, dataplanes ...string) {
	rt.set(mesh.Meshes, "", name, &mesh.Mesh{MTLS: &mesh.MTLS{
		EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: mesh.AuthorityBuiltin}},
	}})
	for _, d := range dataplanes {
		rt.set(mesh.Dataplanes, name, d, &mesh.Dataplane{})
	}
}

// pair makes an authority.
func (rt *rotationTest) pair() *KeyPair {
	cert, key, err := GenerateRoot("m", "ca", nil)
	rt.must(err)
	p := &KeyPair{Certificate: cert, Key: key}
	rt.leaves[Issuer(cert)] = rt.leaf(p)
	return p
}

func (rt *rotationTest) leaf(p *KeyPair) *x509.Certificate {
	parent, signer, err := parsePair(p)
	rt.must(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rt.must(err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now(), NotAfter: time.Now().Add(WorkloadLife),
	}, parent, key.Public(), signer)
	rt.must(err)
	c, err := x509.ParseCertificate(der)
	rt.must(err)
	return c
}

// ask has a builtin mesh ask for a pair.
func (rt *rotationTest) ask(name string, p *KeyPair) {
	rt.set(mesh.Secrets, name, mesh.BuiltinCert(name, "ca"), &mesh.Secret{Data: p.Certificate})
	rt.set(mesh.Secrets, name, mesh.BuiltinKey(name, "ca"), &mesh.Secret{Data: p.Key})
	rt.changed(name)
}

func (rt *rotationTest) changed(name string) {
	rt.r.Changed(name)
	synctest.Wait()
	rt.look()
}

func (rt *rotationTest) confirm(name, dataplane string, revision uint64) {
	rt.progress.confirm(name, dataplane, revision)
	synctest.Wait()
	rt.look()
}

// trust returns what a mesh believes in, and the revision of that.
func (rt *rotationTest) trust(name string) (tr *mesh.Trust, revision uint64) {
	rt.must(rt.store.View(context.Background(), func(r store.Reader) error {
		res, err := r.Get(mesh.Trusts, name, name)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err == nil {
			tr, revision = res.Spec.(*mesh.Trust), res.Revision
		}
		return err
	}))
	return tr, revision
}

func (rt *rotationTest) state(name string) (a *MeshAuthority) {
	rt.must(rt.store.View(context.Background(), func(r store.Reader) error {
		res, err := r.Get(MeshAuthorities, name, name)
		if err == nil {
			a = res.Spec.(*MeshAuthority)
		}
		return err
	}))
	return a
}

func (rt *rotationTest) look() {
	tr, _ := rt.trust("m")
	if tr != nil && (len(rt.history) == 0 || !cmp.Equal(rt.history[len(rt.history)-1], tr)) {
		rt.history = append(rt.history, tr)
	}
}

// expect compares what a mesh believes in.
func (rt *rotationTest) expect(name string, issuer *KeyPair, roots ...*KeyPair) {
	rt.t.Helper()
	a := MeshAuthority{Backend: "ca", Current: *issuer}
	for _, p := range roots {
		a.Previous = append(a.Previous, RetiredRoot{Certificate: p.Certificate})
	}
	got, _ := rt.trust(name)
	if diff := cmp.Diff(a.trust(), got); diff != "" {
		rt.t.Fatalf("trust of mesh %s (-want +got):\n%s", name, diff)
	}
}

func (rt *rotationTest) verifies(leaf *x509.Certificate, roots []byte) bool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: time.Now()})
	return err == nil
}

// noGap holds what makes a rotation unseen: whoever is one step behind or ahead
// accepts what is signed in a step.
func (rt *rotationTest) noGap() {
	rt.t.Helper()
	for i, tr := range rt.history {
		for j := max(0, i-1); j <= min(i+1, len(rt.history)-1); j++ {
			if !rt.verifies(rt.leaves[tr.Issuer], rt.history[j].Roots) {
				rt.t.Errorf("a certificate of step %d does not verify in step %d", i, j)
			}
		}
	}
}

func rotationBubble(t *testing.T, f func(rt *rotationTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rt := newRotationTest(t, memstore.New())
		defer rt.close()
		f(rt)
	})
}

// confirmAll has dataplanes confirm the current revision.
func (rt *rotationTest) confirmAll(name string, dataplanes ...string) {
	_, rev := rt.trust(name)
	for _, d := range dataplanes {
		rt.confirm(name, d, rev)
	}
}

func TestRotationThreeTimes(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		old := rt.pair()
		rt.builtin("m", "a", "b")
		rt.ask("m", old)
		rt.expect("m", old, old)
		rt.confirmAll("m", "a", "b")
		for range 3 {
			next := rt.pair()
			rt.ask("m", next)
			rt.expect("m", old, old, next)
			rt.confirmAll("m", "a")
			rt.expect("m", old, old, next)
			rt.confirmAll("m", "b")
			rt.expect("m", next, old, next)
			rt.confirmAll("m", "a")
			rt.expect("m", next, old, next)
			rt.confirmAll("m", "b")
			rt.expect("m", next, next)
			old = next
		}
		if len(rt.history) != 10 {
			rt.t.Errorf("%d steps were seen, not 10", len(rt.history))
		}
		rt.noGap()
		if n := rt.log.count(); n != 0 {
			rt.t.Errorf("%d warnings: %q", n, rt.log.texts)
		}
	})
}

// TestRotationResumes ends the process in each state and starts another one, over
// the file that the first has left.
func TestRotationResumes(t *testing.T) {
	for crash := range 4 {
		dir := t.TempDir()
		keys, err := seal.Load(filepath.Join(dir, "encryption.key"), "")
		if err != nil {
			t.Fatal(err)
		}
		open := func() store.Store {
			s, err := sqlstore.Open(context.Background(), sqlstore.Options{
				Path: filepath.Join(dir, "meshgate.db"), Kinds: append(Kinds(), mesh.Kinds()...), Sealer: keys, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		synctest.Test(t, func(t *testing.T) {
			rt := newRotationTest(t, open())
			defer func() { rt.close() }()
			rt.resume(crash, func() {
				rt.close()
				rt.store = open()
				rt.start()
			})
		})
	}
}

// resume rotates once; in the state that crash counts to it calls restart.
func (rt *rotationTest) resume(crash int, restart func()) {
	old, next := rt.pair(), rt.pair()
	step := 0
	done := func() {
		if step == crash {
			restart()
			synctest.Wait()
			rt.look()
		}
		step++
	}
	rt.builtin("m", "a")
	rt.ask("m", old)
	done()
	rt.confirmAll("m", "a")
	rt.ask("m", next)
	done()
	rt.expect("m", old, old, next)
	rt.confirmAll("m", "a")
	done()
	rt.expect("m", next, old, next)
	rt.confirmAll("m", "a")
	done()
	rt.expect("m", next, next)
	if len(rt.history) != 4 {
		rt.t.Errorf("crash at %d: %d steps were seen, not 4", crash, len(rt.history))
	}
	rt.noGap()
}

// TestRotationByTwo has two processes look after one store: a step that the other
// has taken is not taken again.
func TestRotationByTwo(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		old, next := rt.pair(), rt.pair()
		rt.builtin("m", "a")
		rt.ask("m", old)
		rt.confirmAll("m", "a")
		first := rt.stop
		rt.ask("m", next)
		rt.start()
		synctest.Wait()
		rt.expect("m", old, old, next)
		rt.confirmAll("m", "a")
		rt.expect("m", next, old, next)
		rt.confirmAll("m", "a")
		rt.expect("m", next, next)
		first()
	})
}

// TestRotationMissesNothing has the pair change while the mesh is being looked at.
func TestRotationMissesNothing(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		old, next := rt.pair(), rt.pair()
		var once sync.Once
		rt.now = func() time.Time {
			once.Do(func() {
				rt.set(mesh.Secrets, "m", mesh.BuiltinCert("m", "ca"), &mesh.Secret{Data: next.Certificate})
				rt.set(mesh.Secrets, "m", mesh.BuiltinKey("m", "ca"), &mesh.Secret{Data: next.Key})
				rt.r.Changed("m")
			})
			return time.Now()
		}
		rt.builtin("m", "a")
		rt.progress.confirm("m", "a", 0)
		rt.ask("m", old)
		rt.expect("m", old, old, next)
	})
}

// TestRotationWhileDown has the pair change, and the proxies confirm, while there
// is no control plane.
func TestRotationWhileDown(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		old, next := rt.pair(), rt.pair()
		rt.builtin("m", "a")
		rt.ask("m", old)
		rt.confirmAll("m", "a")
		rt.stop()
		rt.ask("m", next)
		rt.expect("m", old, old)
		rt.start()
		synctest.Wait()
		rt.expect("m", old, old, next)
		rt.stop()
		rt.confirmAll("m", "a")
		rt.expect("m", old, old, next)
		rt.start()
		synctest.Wait()
		rt.expect("m", next, old, next)
	})
}

func TestRotationOfMismatchedPair(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		old, next := rt.pair(), rt.pair()
		rt.builtin("m", "a")
		rt.set(mesh.Secrets, "m", mesh.BuiltinCert("m", "ca"), &mesh.Secret{Data: old.Certificate})
		rt.changed("m")
		if tr, _ := rt.trust("m"); tr != nil {
			rt.t.Fatal("an authority without a key is trusted")
		}
		rt.ask("m", old)
		rt.confirmAll("m", "a")
		before := rt.log.count()
		rt.set(mesh.Secrets, "m", mesh.BuiltinCert("m", "ca"), &mesh.Secret{Data: next.Certificate})
		rt.changed("m")
		rt.changed("m")
		rt.expect("m", old, old)
		if n := rt.log.count() - before; n != 1 {
			rt.t.Errorf("%d warnings, not 1", n)
		}
		rt.ask("m", next)
		rt.expect("m", old, old, next)
	})
}

func TestRotationRefusesCertificatesOutOfTime(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		old, short := rt.pair(), func() *KeyPair {
			cert, key, err := GenerateRoot("m", "ca", &mesh.AuthorityConf{CACert: &mesh.CACert{Expiration: "1h"}})
			rt.must(err)
			return &KeyPair{Certificate: cert, Key: key}
		}()
		rt.builtin("m")
		rt.ask("m", old)
		time.Sleep(2 * time.Hour)
		rt.ask("m", short)
		rt.expect("m", old, old)

		parent, signer, err := parsePair(old)
		rt.must(err)
		parent.NotBefore = time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, parent, parent, signer.Public(), signer)
		rt.must(err)
		later := &KeyPair{Certificate: rotationPEM("CERTIFICATE", der), Key: old.Key}
		rt.ask("m", later)
		rt.expect("m", old, old)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got, _ := rt.trust("m"); got.Issuer != Issuer(later.Certificate) {
			rt.t.Error("a certificate that became valid was not taken")
		}
	})
}

func TestRotationBack(t *testing.T) {
	for _, signs := range []bool{false, true} {
		rotationBubble(t, func(rt *rotationTest) {
			old, next := rt.pair(), rt.pair()
			rt.builtin("m", "a")
			rt.ask("m", old)
			rt.confirmAll("m", "a")
			rt.ask("m", next)
			if signs {
				rt.confirmAll("m", "a")
				rt.expect("m", next, old, next)
				rt.ask("m", old)
				rt.expect("m", next, old, next)
				rt.confirmAll("m", "a")
			} else {
				rt.expect("m", old, old, next)
				rt.ask("m", old)
			}
			rt.confirmAll("m", "a")
			rt.expect("m", old, old)
			if a := rt.state("m"); a.Phase != "" || a.Pending != nil || len(a.Previous) > 0 {
				rt.t.Errorf("rotation is still in phase %q", a.Phase)
			}
			rt.noGap()
		})
	}
}

// TestRotationLatestWins asks for a third authority in each phase of the rotation
// to the second.
func TestRotationLatestWins(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		a, b, c := rt.pair(), rt.pair(), rt.pair()
		rt.builtin("m", "x")
		rt.ask("m", a)
		rt.confirmAll("m", "x")
		rt.ask("m", b)
		rt.ask("m", c)
		rt.expect("m", a, a, c)
		rt.confirmAll("m", "x")
		rt.expect("m", c, a, c)
		rt.ask("m", b)
		rt.expect("m", c, a, b, c)
		rt.confirmAll("m", "x")
		rt.expect("m", b, a, b, c)
		rt.ask("m", a)
		rt.ask("m", b)
		rt.expect("m", b, a, b, c)
		rt.confirmAll("m", "x")
		rt.expect("m", b, b)
		rt.noGap()
	})
}

func TestRotationDoesNotHoldUpOthers(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		a, b := rt.pair(), rt.pair()
		for _, m := range []string{"m", "n"} {
			rt.builtin(m, "x")
			rt.ask(m, a)
			rt.confirmAll(m, "x")
			rt.ask(m, b)
		}
		rt.confirmAll("n", "x")
		rt.confirmAll("n", "x")
		rt.expect("n", b, b)
		rt.expect("m", a, a, b)
	})
}

// TestRotationWaitsForAbsent keeps the old root for a dataplane that is away.
func TestRotationWaitsForAbsent(t *testing.T) {
	for name, end := range map[string]func(rt *rotationTest){
		"returns": func(rt *rotationTest) {
			_, rev := rt.trust("m")
			rt.progress.confirm("m", "away", rev)
			rt.r.ProxiesChanged("m")
		},
		"is deleted": func(rt *rotationTest) {
			rt.set(mesh.Dataplanes, "m", "away", nil)
			rt.r.ProxiesChanged("m")
		},
		"is deleted, seen as a change": func(rt *rotationTest) {
			rt.set(mesh.Dataplanes, "m", "away", nil)
			rt.r.Changed("m")
		},
		"lets its certificate expire": func(*rotationTest) { time.Sleep(backdate) },
	} {
		t.Run(name, func(t *testing.T) {
			rotationBubble(t, func(rt *rotationTest) {
				a, b := rt.pair(), rt.pair()
				rt.builtin("m", "here", "away")
				rt.ask("m", a)
				rt.confirmAll("m", "here")
				rt.ask("m", b)
				rt.confirmAll("m", "here")
				rt.confirmAll("m", "here")
				time.Sleep(WorkloadLife - time.Minute)
				rt.r.ProxiesChanged("m")
				rt.changed("m")
				rt.expect("m", b, a, b)
				time.Sleep(time.Minute)
				end(rt)
				synctest.Wait()
				rt.expect("m", b, b)
			})
		})
	}
}

// TestRotationWaitsForLatecomer has the last dataplane come and go while the others
// have confirmed: its stream counts once it has confirmed as well.
func TestRotationWaitsForLatecomer(t *testing.T) {
	connect := func(rt *rotationTest) { rt.progress.confirm("m", "late", 0) }
	leave := func(rt *rotationTest) { rt.progress.disconnect("m", "late") }
	for name, hooks := range map[string][]func(*rotationTest){
		"before the second look": {connect},
		"after the second look":  {func(*rotationTest) {}, connect},
		"and leaves": {func(rt *rotationTest) {
			connect(rt)
			go leave(rt)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rotationBubble(t, func(rt *rotationTest) {
				a, b := rt.pair(), rt.pair()
				rt.builtin("m", "here", "late")
				rt.ask("m", a)
				rt.confirmAll("m", "here")
				rt.ask("m", b)
				rt.confirmAll("m", "here")
				for _, h := range hooks {
					rt.progress.onConnected = append(rt.progress.onConnected, func() { h(rt) })
				}
				rt.confirmAll("m", "here")
				rt.expect("m", b, a, b)
				rt.r.ProxiesChanged("m")
				synctest.Wait()
				rt.expect("m", b, a, b)
				rt.confirmAll("m", "late")
				rt.r.ProxiesChanged("m")
				synctest.Wait()
				rt.expect("m", b, b)
			})
		})
	}
}

// TestRotationWithoutAnswer drops the old root in time though a connected proxy
// never confirms: the certificate that it may hold has expired.
func TestRotationWithoutAnswer(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		a, b := rt.pair(), rt.pair()
		rt.builtin("m", "x")
		rt.ask("m", a)
		rt.confirmAll("m", "x")
		rt.ask("m", b)
		rt.confirmAll("m", "x")
		time.Sleep(WorkloadLife + backdate)
		synctest.Wait()
		rt.expect("m", b, b)
		if a := rt.state("m"); a.Phase != "" {
			rt.t.Errorf("the rotation is still in phase %q", a.Phase)
		}
	})
}

func TestRotationWithTLSOff(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		a, b := rt.pair(), rt.pair()
		rt.builtin("m", "x")
		rt.ask("m", a)
		rt.confirmAll("m", "x")
		rt.ask("m", b)
		rt.set(mesh.Meshes, "", "m", &mesh.Mesh{})
		rt.changed("m")
		rt.confirmAll("m", "x")
		rt.changed("m")
		rt.expect("m", a, a, b)

		cert, key := string(a.Certificate), string(a.Key)
		rt.set(mesh.Meshes, "", "m", &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "own", Backends: []mesh.Authority{{
			Name: "own", Type: mesh.AuthorityProvided,
			Conf: &mesh.AuthorityConf{Cert: &mesh.DataSource{InlineString: &cert}, Key: &mesh.DataSource{InlineString: &key}},
		}}}})
		rt.changed("m")
		got, _ := rt.trust("m")
		want := (&MeshAuthority{Backend: "own", Current: *a}).trust()
		if diff := cmp.Diff(want, got); diff != "" {
			rt.t.Error(diff)
		}
	})
}

func TestRotationOfDeletedMesh(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		rt.builtin("m", "x")
		rt.ask("m", rt.pair())
		rt.confirmAll("m", "x")
		rt.ask("m", rt.pair())
		rt.set(mesh.Meshes, "", "m", nil)
		rt.set(mesh.Trusts, "m", "m", nil)
		rt.set(MeshAuthorities, "m", "m", nil)
		rt.changed("m")
		if tr, _ := rt.trust("m"); tr != nil {
			rt.t.Error("a mesh that is gone is trusted again")
		}
	})
}

// TestRotationRetries has the progress fail.
func TestRotationRetries(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		a, b := rt.pair(), rt.pair()
		rt.builtin("m", "x")
		rt.ask("m", a)
		rt.confirmAll("m", "x")
		rt.progress.change(func() { rt.progress.fail = errors.New("away") })
		rt.ask("m", b)
		time.Sleep(2*firstRetry + firstRetry/2)
		synctest.Wait()
		if n := rt.log.count(); n != 2 {
			rt.t.Errorf("%d errors are logged in 2.5 s, not 2", n)
		}
		rt.expect("m", a, a, b)
		rt.progress.change(func() { rt.progress.fail = nil })
		rt.confirmAll("m", "x")
		time.Sleep(lastRetry)
		synctest.Wait()
		rt.expect("m", b, a, b)
	})
}

// TestRotationUnderConstantChange changes the mesh without a pause: steps must
// still be taken.
func TestRotationUnderConstantChange(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		a, b := rt.pair(), rt.pair()
		rt.builtin("m", "x")
		rt.ask("m", a)
		rt.confirmAll("m", "x")
		rt.ask("m", b)
		for range 100 {
			rt.r.Changed("m")
			rt.r.ProxiesChanged("m")
		}
		rt.confirmAll("m", "x")
		rt.confirmAll("m", "x")
		rt.expect("m", b, b)
		if a := rt.state("m"); !bytes.Equal(a.Current.Key, b.Key) {
			rt.t.Error("the key is not that of the certificate")
		}
	})
}

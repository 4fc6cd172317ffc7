package meshca

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"maps"
	"math/big"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/steady"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// fakeProgress is a fleet whose proxies confirm when the test says so.
type fakeProgress struct {
	mu sync.Mutex
	// confirmed holds the connected dataplanes by mesh and name.
	confirmed map[string]map[string]uint64
	// refused holds those that refuse whatever they are sent.
	refused map[string]map[string]bool
	// hidden are the meshes to whose proxies nothing new is offered; still says that there is another mesh
	// of that kind which judges by the roots of each.
	hidden map[string]bool
	still  bool
	moved  chan struct{}
	fail   error
	// onConfirmed run before Confirmed waits, onSettled before Settled answers, one in each
	// call.
	onConfirmed, onSettled []func()
}

func newFakeProgress() *fakeProgress {
	return &fakeProgress{confirmed: map[string]map[string]uint64{}, moved: make(chan struct{})}
}

// hook takes the next one of a list.
func (p *fakeProgress) hook(list *[]func()) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(*list) == 0 {
		return func() {}
	}
	f := (*list)[0]
	*list = (*list)[1:]
	return f
}

func (p *fakeProgress) Confirmed(ctx context.Context, meshName string, revision uint64, others bool) error {
	p.hook(&p.onConfirmed)()
	return p.await(ctx, func() bool { return p.answered(meshName, revision) && (!others || !p.still) })
}

func (p *fakeProgress) Unrefused(ctx context.Context, meshName string, revision uint64) error {
	return p.await(ctx, func() bool { return len(p.refused[meshName]) == 0 && !p.hidden[meshName] })
}

// answered reports whether every proxy of a mesh has confirmed a revision.
func (p *fakeProgress) answered(meshName string, revision uint64) bool {
	for _, at := range p.confirmed[meshName] {
		if at < revision {
			return false
		}
	}
	return len(p.refused[meshName]) == 0 && !p.hidden[meshName]
}

// Others implements Progress: each mesh is alone.
func (p *fakeProgress) Others(string) []string { return nil }

// Left implements Progress: who refuses stays.
func (p *fakeProgress) Left(string, uint64, bool) time.Time { return time.Time{} }

// Shown implements Progress: whatever is written is shown at once, unless the mesh is hidden.
func (p *fakeProgress) Shown(ctx context.Context, meshName string, _ uint64) error {
	return p.await(ctx, func() bool { return !p.hidden[meshName] })
}

// Behind implements Progress.
func (p *fakeProgress) Behind(meshName string, _ uint64) (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hidden[meshName] {
		out = append(out, meshName)
	}
	if p.still {
		out = append(out, "another mesh")
	}
	return out
}

func (p *fakeProgress) Lacking(meshName string, revision uint64) (silent, refusing []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.confirmed[meshName])) {
		switch {
		case p.refused[meshName][name]:
			refusing = append(refusing, name)
		case p.confirmed[meshName][name] < revision:
			silent = append(silent, name)
		}
	}
	return silent, refusing
}

// refuse connects a dataplane that refuses what it is told to trust, or does so no more.
func (p *fakeProgress) refuse(meshName, dataplane string, yes bool) {
	p.change(func() {
		if p.refused == nil {
			p.refused = map[string]map[string]bool{meshName: {}}
		}
		if delete(p.refused[meshName], dataplane); yes {
			p.refused[meshName][dataplane] = true
		}
	})
}

func (p *fakeProgress) await(ctx context.Context, holds func() bool) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.mu.Lock()
		all, moved, fail := holds(), p.moved, p.fail
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

func (p *fakeProgress) Settled(meshName string, revision uint64, _ time.Duration) map[string]bool {
	p.hook(&p.onSettled)()
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]bool{}
	for name, at := range p.confirmed[meshName] {
		out[mesh.NodeID(meshName, name)] = at >= revision
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

// trustHistory is what mesh m has believed in, in order.
type trustHistory struct {
	mu    sync.Mutex
	steps []*mesh.Trust
}

func (h *trustHistory) all() []*mesh.Trust {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.steps)
}

// recordedStore notes every trust that is committed.
type recordedStore struct {
	store.Store
	history *trustHistory
}

func (s *recordedStore) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	commit, err := s.Store.Update(ctx, class, fn)
	for _, c := range commit.Changes {
		if c.New != nil && c.New.Kind == mesh.Trusts && c.New.Scope == "m" {
			s.history.steps = append(s.history.steps, c.New.Spec.(*mesh.Trust))
		}
	}
	return commit, err
}

// rotationTest drives rotations inside a bubble.
type rotationTest struct {
	t        testing.TB
	store    store.Store
	progress *fakeProgress
	log      *warnings
	// handler is where processes log that are started from now on.
	handler slog.Handler
	r       *Rotations
	stop    func()
	// leaves are by issuer, one for each authority made.
	leaves map[string]*x509.Certificate
	// history is shared with the store.
	history *trustHistory
	// grace is that of the processes that are started from now on.
	grace time.Duration
	// silence is how long they wait for who does not answer; longer than any other test.
	silence time.Duration
	// held is what they have told of meshes that are held up, by mesh.
	held sync.Map
	// now is called for every reading of the clock.
	now func() time.Time
	// life is that of certificates.
	life time.Duration
}

func newRotationTest(t testing.TB, s store.Store) *rotationTest {
	log := &warnings{}
	rt := unopenedRotationTest(t, log)
	rt.log = log
	rt.open(s)
	return rt
}

func unopenedRotationTest(t testing.TB, handler slog.Handler) *rotationTest {
	return &rotationTest{
		t: t, history: &trustHistory{}, progress: newFakeProgress(), handler: handler, leaves: map[string]*x509.Certificate{}, now: time.Now, life: WorkloadLife, silence: 10 * WorkloadLife,
	}
}

// open starts a process over a store.
func (rt *rotationTest) open(s store.Store) {
	rt.store = &recordedStore{Store: s, history: rt.history}
	rt.start()
}

// told implements Held.
func (rt *rotationTest) told(name string, revision uint64) { rt.held.Store(name, revision) }

// heldAt is what was told of a mesh last.
func (rt *rotationTest) heldAt(name string) uint64 {
	revision, _ := rt.held.LoadOrStore(name, uint64(0))
	return revision.(uint64)
}

// direct writes without a gate.
type direct struct{ store.Store }

func (d direct) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	return d.Update(ctx, class, fn)
}

// start is a new process over the same store.
func (rt *rotationTest) start() {
	base := time.Now()
	rt.r = NewRotations(Options{
		Clock: steady.New(func() (time.Time, time.Duration) { return rt.now(), time.Since(base) }),
		Store: rt.store, Writer: direct{rt.store}, Progress: rt.progress, Now: func() time.Time { return rt.now() }, Log: slog.New(rt.handler),
		LeafLife: func(*mesh.Authority) time.Duration { return rt.life }, Grace: rt.grace, Silence: rt.silence, Held: rt.told,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- rt.r.Run(ctx) }()
	synctest.Wait()
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
	storetest.Place(rt.t, rt.store, k, scope, name, spec)
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
func (rt *rotationTest) pair() *identity.KeyPair {
	cert, key, err := GenerateRoot("m", "ca", nil)
	rt.must(err)
	p := &identity.KeyPair{Certificate: cert, Key: key}
	rt.leaves[identity.Issuer(cert)] = rt.leaf(p)
	return p
}

func (rt *rotationTest) parsed(p *identity.KeyPair) (*x509.Certificate, crypto.Signer) {
	pair, err := tls.X509KeyPair(p.Certificate, p.Key)
	rt.must(err)
	return pair.Leaf, pair.PrivateKey.(crypto.Signer)
}

func (rt *rotationTest) leaf(p *identity.KeyPair) *x509.Certificate {
	parent, signer := rt.parsed(p)
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
func (rt *rotationTest) ask(name string, p *identity.KeyPair) {
	rt.set(mesh.Secrets, name, mesh.BuiltinCert(name, "ca"), &mesh.Secret{Data: p.Certificate})
	rt.set(mesh.Secrets, name, mesh.BuiltinKey(name, "ca"), &mesh.Secret{Data: p.Key})
	rt.changed(name)
}

func (rt *rotationTest) changed(name string) {
	rt.r.Changed(name)
	synctest.Wait()
}

func (rt *rotationTest) confirm(name, dataplane string, revision uint64) {
	rt.progress.confirm(name, dataplane, revision)
	synctest.Wait()
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

func (rt *rotationTest) state(name string) (a *Authority) {
	rt.must(rt.store.View(context.Background(), func(r store.Reader) error {
		res, err := r.Get(Authorities, name, name)
		if err == nil {
			a = res.Spec.(*Authority)
		}
		return err
	}))
	return a
}

// expect compares what a mesh believes in.
func (rt *rotationTest) expect(name string, issuer *identity.KeyPair, roots ...*identity.KeyPair) {
	rt.t.Helper()
	a := Authority{Backend: "ca", Current: *issuer}
	for _, p := range roots {
		a.Previous = append(a.Previous, RetiredRoot{Certificate: p.Certificate})
	}
	got, _ := rt.trust(name)
	want := a.trust()
	if got != nil {
		want.Withdrawn = got.Withdrawn // what happened and not what is
	}
	if diff := cmp.Diff(want, got); diff != "" {
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
	steps := rt.history.all()
	for i, tr := range steps {
		for j := max(0, i-1); j <= min(i+1, len(steps)-1); j++ {
			if !rt.verifies(rt.leaves[tr.Issuer], steps[j].Roots) {
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

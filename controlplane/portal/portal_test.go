package portal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var cheap = Cost{KiB: 64, Passes: 1, Threads: 1}

// TestPasswords: a password matches its hash and no other does, whatever hashes look like.
func TestPasswords(t *testing.T) {
	h := NewHasher(cheap)
	hash, err := h.Hash(t.Context(), "correct horse")
	if err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$m=64,t=1,p=1$") || strings.Contains(hash, "horse") {
		t.Fatalf("%s %v", hash, err)
	}
	if again, _ := h.Hash(t.Context(), "correct horse"); again == hash {
		t.Error("two hashes of a password are the same")
	}
	last := hash[:len(hash)-1]
	for _, test := range []struct {
		password, hash string
		same           bool
	}{
		{"correct horse", hash, true}, {"correct horse ", hash, false}, {"", hash, false}, {"correct horse", "", false}, {"", "", false},
		{"correct horse", last, false}, {"correct horse", "$argon2id$v=19$m=64,t=1,p=1$$", false}, {"correct horse", "plain", false}, {"plain", "plain", false},
		{"correct horse", strings.Replace(hash, "argon2id", "argon2i", 1), false}, {"correct horse", strings.Replace(hash, "v=19", "v=16", 1), false},
		{"correct horse", strings.Replace(hash, "m=64", "m=4294967295", 1), false}, {"correct horse", strings.Replace(hash, "t=1", "t=0", 1), false},
		{"correct horse", strings.Replace(hash, "p=1", "p=0", 1), false}, {"correct horse", strings.Replace(hash, "t=1", "t=2", 1), false},
	} {
		if same, err := h.Verify(t.Context(), test.password, test.hash); same != test.same || err != nil {
			t.Errorf("%q and %q: %t %v", test.password, test.hash, same, err)
		}
	}
	if same, err := NewHasher(Cost{KiB: 128, Passes: 2, Threads: 1}).Verify(t.Context(), "correct horse", hash); !same || err != nil {
		t.Errorf("a hash of another cost: %t %v", same, err)
	}
}

// TestFewAtOnce: no more passwords are computed at once, and no more wait, than there is room for.
func TestFewAtOnce(t *testing.T) {
	h := NewHasher(cheap)
	begun, end := make(chan struct{}, 100), make(chan struct{})
	done := make(chan error, 100)
	for range atOnce + inLine {
		go func() { done <- h.turn(context.Background(), func() { begun <- struct{}{}; <-end }) }()
	}
	for range atOnce {
		<-begun
	}
	for len(h.line) < atOnce+inLine {
		time.Sleep(time.Millisecond)
	}
	if _, err := h.Hash(t.Context(), "x"); !errors.Is(err, ErrBusy) {
		t.Errorf("one too many: %v", err)
	}
	if n := len(begun); n != 0 {
		t.Errorf("%d more than %d are computed at once", n, atOnce)
	}
	close(end)
	for range atOnce + inLine {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range atOnce {
		h.places <- struct{}{}
	}
	if _, err := h.Hash(ctx, "x"); !errors.Is(err, context.Canceled) || len(h.line) != 0 {
		t.Errorf("somebody who has left waits: %v, %d", err, len(h.line))
	}
}

// world has a portal with developers in each state.
type world struct {
	accounts *Accounts
	portal   string
	now      time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{portal: "10000000-0000-4000-8000-000000000000", now: time.UnixMilli(1700000000000)}
	now := func() time.Time { return w.now }
	s := memstore.Open(memstore.Options{Now: now})
	t.Cleanup(func() { _ = s.Close() })
	gate := admit.New(s, &admittest.Revoker{}, cloud.Kinds(), now).As(model.System("portal"))
	w.accounts = New(Options{Store: s, Writer: gate, Log: slog.New(slog.DiscardHandler), Now: now, Hasher: NewHasher(cheap)})
	hash, err := w.accounts.Hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	_, err = gate.Write(t.Context(), model.Config, func(tx store.Tx) error {
		if _, err := tx.Create(&model.Resource{Kind: cloud.Portals, Name: w.portal, Spec: &cloud.Portal{Name: "p", Slug: "p", BasicAuth: true}}); err != nil {
			return err
		}
		for _, status := range []string{cloud.Approved, cloud.Pending, cloud.Revoked, cloud.Rejected, "bare"} {
			dev := &cloud.Developer{Portal: w.portal, Email: status + "@example.com", FullName: "D", Status: status}
			if status == "bare" {
				dev.Status = cloud.Approved
			}
			res, err := Add(tx, dev, w.now)
			if err == nil && status != "bare" {
				err = SetPassword(tx, res.Name, hash)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) login(t *testing.T, name string) (Login, error) {
	t.Helper()
	return w.accounts.Login(t.Context(), Attempt{Portal: w.portal, Email: name + "@example.com", Password: "wrong", Source: netip.MustParseAddr("192.0.2.1")})
}

// TestSameTime: the same is computed for everybody, whoever it is: nothing can be told from the time.
func TestSameTime(t *testing.T) {
	w := newWorld(t)
	names := []string{cloud.Approved, cloud.Pending, cloud.Revoked, cloud.Rejected, "bare", "nobody"}
	for range DefaultLimits.DeveloperFailures {
		w.now = w.now.Add(time.Minute)
		if _, err := w.login(t, cloud.Approved); err != nil {
			t.Fatal(err)
		}
	}
	if l, err := w.login(t, cloud.Approved); err != nil || l.Outcome != audit.Locked {
		t.Fatalf("%v %v", l, err)
	}
	w.accounts.Hasher = &Hasher{}
	for _, name := range names {
		w.now = w.now.Add(time.Second)
		if _, err := w.login(t, name); !errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v without a computation", name, err)
		}
	}
}

// TestSameWrites: each attempt that fails writes, whether there is anything to count or not: nothing can
// be told from the time of that either.
func TestSameWrites(t *testing.T) {
	w := newWorld(t)
	writes := &counting{Writer: w.accounts.Writer}
	w.accounts.Writer = writes
	for _, name := range []string{cloud.Approved, cloud.Pending, cloud.Revoked, cloud.Rejected, "bare", "nobody"} {
		*writes = counting{Writer: writes.Writer}
		if _, err := w.login(t, name); err != nil || writes.commits != 1 || writes.changes != 1 {
			t.Errorf("%s: %d changes by %d commits, %v", name, writes.changes, writes.commits, err)
		}
	}
}

// counting counts transactions, and what they have written.
type counting struct {
	Writer
	commits, changes int
}

func (c *counting) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	commit, err := c.Writer.Write(ctx, class, fn)
	c.commits++
	c.changes += len(commit.Changes)
	return commit, err
}

// TestTooManyComputeNothing: whoever tries or logs in too often is turned away before a password is computed,
// which is what costs. Whoever is not turned away comes to it.
func TestTooManyComputeNothing(t *testing.T) {
	one := Rate{Burst: 1, Each: time.Minute}
	many := Rate{Burst: 100, Each: time.Minute}
	for name, test := range map[string]struct {
		limits Limits
		who    string
	}{
		"one address":                    {Limits{Address: one, Portal: many, Device: many, Developer: many}, "nobody"},
		"one portal":                     {Limits{Address: many, Portal: one, Device: many, Developer: many}, "nobody"},
		"a developer from one address":   {Limits{Address: many, Portal: many, Device: one, Developer: many}, cloud.Approved},
		"a developer from all addresses": {Limits{Address: many, Portal: many, Device: many, Developer: one}, cloud.Approved},
	} {
		test.limits.AddressFailures, test.limits.DeveloperFailures, test.limits.Lock, test.limits.Remembered = 100, 100, time.Minute, 100
		w := newWorld(t)
		o := w.accounts.Options
		o.Limits = test.limits
		w.accounts = New(o)
		login := func() error {
			_, err := w.accounts.Login(t.Context(), Attempt{
				Portal: w.portal, Email: test.who + "@example.com", Password: "correct horse", Source: netip.MustParseAddr("192.0.2.1"),
			})
			return err
		}
		if err := login(); err != nil {
			t.Errorf("%s: the first: %v", name, err)
		}
		w.accounts.Hasher = &Hasher{}
		if err := login(); !isTooMany(err) {
			t.Errorf("%s: the second: %v", name, err)
		}
		w.now = w.now.Add(time.Hour)
		if err := login(); !errors.Is(err, ErrBusy) {
			t.Errorf("%s: later, without a place for a computation: %v", name, err)
		}
	}
}

func isTooMany(err error) bool {
	_, many := errors.AsType[*TooMany](err)
	return many
}

// TestGuard: what is remembered is bounded, an address is what one subscriber has, and nobody is held
// up by an address that was forgotten.
func TestGuard(t *testing.T) {
	now := time.UnixMilli(1700000000000)
	l := Limits{Address: Rate{Burst: 2, Each: time.Second}, Portal: Rate{Burst: 1000, Each: time.Second}, AddressFailures: 2, Lock: time.Minute, Remembered: 3}
	g := newGuard(l, func() time.Time { return now })
	enter := func(address string) time.Duration {
		wait, _ := g.enter("p", netip.MustParseAddr(address))
		return wait
	}
	for _, step := range []struct {
		address string
		wait    time.Duration
	}{
		{"192.0.2.1", 0}, {"192.0.2.1", 0}, {"192.0.2.1", time.Second}, {"::ffff:192.0.2.1", time.Second}, {"192.0.2.2", 0},
		{"2001:db8::1", 0}, {"2001:db8::2", 0}, {"2001:db8::3%eth0", time.Second},
		{"2001:db8:0:1::1", 0}, // the fourth address: the first one is forgotten
		{"192.0.2.1", 0},
	} {
		if got := enter(step.address); got != step.wait {
			t.Errorf("%s: %s, want %s", step.address, got, step.wait)
		}
	}
	for i := range 100 {
		enter(fmt.Sprintf("198.51.100.%d", i))
	}
	if listed(g) != 3 || len(g.visitors) != 3 {
		t.Errorf("%d and %d are remembered", len(g.visitors), listed(g))
	}
	at := netip.MustParseAddr("203.0.113.1")
	g.failed("p", at)
	now = now.Add(l.Lock)
	g.failed("p", at) // the first one is long ago
	if _, locked := g.enter("p", at); locked != 0 {
		t.Errorf("locked for %s", locked)
	}
	g.failed("p", at)
	if _, locked := g.enter("p", at); locked != l.Lock {
		t.Errorf("locked for %s", locked)
	}
	if _, locked := g.enter("q", at); locked != 0 {
		t.Errorf("at another portal locked for %s", locked)
	}
	for i := range maxPortals + 10 {
		g.enter(fmt.Sprint(i), at)
	}
	if len(g.portals) > maxPortals {
		t.Errorf("%d portals are remembered", len(g.portals))
	}
}

// listed counts who is in the lists of a guard.
func listed(g *guard) (n int) {
	for _, l := range g.guilt {
		n += l.Len()
	}
	return n
}

// TestFlushed: whoever has very many addresses does not make the guard forget the failures of one with
// those of others, and what is locked out stays locked out, even if nobody else can be remembered.
func TestFlushed(t *testing.T) {
	now := time.UnixMilli(1700000000000)
	l := Limits{Address: Rate{Burst: 20, Each: time.Second}, Portal: Rate{Burst: 1 << 20, Each: time.Millisecond}, AddressFailures: 10, Lock: time.Hour, Remembered: 50}
	g := newGuard(l, func() time.Time { return now })
	fail := func(from netip.Addr, n int) {
		for range n {
			if wait, locked := g.enter("p", from); wait > 0 || locked > 0 {
				return
			}
			g.failed("p", from)
		}
	}
	address := func(group byte, i int) netip.Addr { return netip.AddrFrom4([4]byte{10, group, byte(i >> 8), byte(i)}) }
	locked, guesses := address(0, 1), address(0, 2)
	fail(locked, l.AddressFailures)
	fail(guesses, l.AddressFailures-1)
	for i := range 100 * l.Remembered {
		fail(address(1, i), 1)
		now = now.Add(time.Millisecond)
	}
	if _, left := g.enter("p", locked); left == 0 {
		t.Error("a lock was flushed")
	}
	fail(guesses, 1)
	if _, left := g.enter("p", guesses); left == 0 {
		t.Error("failures were flushed")
	}
	for i := range l.Remembered - 2 {
		fail(address(2, i), l.AddressFailures)
	}
	if wait, _ := g.enter("p", address(3, 0)); wait == 0 {
		t.Error("somebody comes in who cannot be remembered")
	}
	if _, left := g.enter("p", locked); left == 0 || len(g.visitors) != l.Remembered || listed(g) != l.Remembered {
		t.Errorf("%d and %d are remembered, locked for %s", len(g.visitors), listed(g), left)
	}
	now = now.Add(2 * l.Lock)
	if wait, left := g.enter("p", address(3, 0)); wait > 0 || left > 0 {
		t.Errorf("after the locks: %s %s", wait, left)
	}
}

// TestHeldUp: who is held up by others at a portal is not remembered, so that a flood fills no memory.
func TestHeldUp(t *testing.T) {
	now := time.UnixMilli(1700000000000)
	l := Limits{Address: Rate{Burst: 2, Each: time.Second}, Portal: Rate{Burst: 3, Each: time.Minute}, AddressFailures: 5, Lock: time.Hour, Remembered: 100}
	g := newGuard(l, func() time.Time { return now })
	for i := range 50 {
		g.enter("p", netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
	}
	if len(g.visitors) != l.Portal.Burst || listed(g) != l.Portal.Burst {
		t.Errorf("%d and %d are remembered", len(g.visitors), listed(g))
	}
}

// TestStrangersAreNotRecorded: developers who register themselves push no records of administrators out.
func TestStrangersAreNotRecorded(t *testing.T) {
	w := newWorld(t)
	records := func() (n int) {
		err := w.accounts.Store.View(t.Context(), func(r store.Reader) error {
			list, err := r.Records(store.RecordQuery{Kind: cloud.Developers.Name})
			n = len(list)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := records()
	if before == 0 {
		t.Fatal("those whom an administrator adds are not recorded")
	}
	if err := w.accounts.Register(t.Context(), netip.MustParseAddr("192.0.2.1"), cloud.Developer{Portal: w.portal, Email: "eve@example.com", FullName: "Eve"}); err != nil {
		t.Fatal(err)
	}
	if n := records(); n != before {
		t.Errorf("%d records of strangers", n-before)
	}
}

// TestTakeoversAreRecorded: whoever sets the password of a developer, or makes the token that sets it, is
// recorded, without the password. What the developer does with the token is not.
func TestTakeoversAreRecorded(t *testing.T) {
	w := newWorld(t)
	records := func() (list []store.ChangeRecord) {
		err := w.accounts.Store.View(t.Context(), func(r store.Reader) (err error) {
			for _, k := range []*model.Kind{cloud.Passwords, cloud.Invitations} {
				of, failed := r.Records(store.RecordQuery{Kind: k.Name})
				list, err = append(list, of...), errors.Join(err, failed)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	ann := model.WithActor(t.Context(), model.User("ann"))
	var dev string
	var hash string
	_, err := w.accounts.Writer.Write(ann, model.Config, func(tx store.Tx) error {
		row, err := tx.Find(cloud.Developers, "", cloud.IndexEmail, cloud.EmailKey(w.portal, "approved@example.com"))
		if err != nil {
			return err
		}
		dev = row.Name
		if hash, err = w.accounts.Hash(t.Context(), "battery staple"); err != nil {
			return err
		}
		return SetPassword(tx, dev, hash)
	})
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := w.accounts.Invite(ann, dev)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]int{}
	before := records()
	for i := range before {
		if before[i].Actor.Name == "ann" {
			of[before[i].Key.Kind+" "+string(before[i].Op)]++
		}
		if text := fmt.Sprintf("%+v", before[i]); strings.Contains(text, hash) || strings.Contains(text, token) {
			t.Errorf("a secret is in %s", text)
		}
	}
	if want := map[string]int{"portal_password updated": 1, "portal_invitation created": 1}; !maps.Equal(of, want) {
		t.Errorf("recorded: %v", of)
	}
	from := netip.MustParseAddr("192.0.2.1")
	_, next, err := w.accounts.Verify(t.Context(), from, w.portal, token)
	if err == nil {
		err = w.accounts.Reset(t.Context(), from, w.portal, next, "correct battery")
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := len(records()); n != len(before) {
		t.Errorf("%d records of the developer", n-len(before))
	}
}

// TestCheckPassword: the bounds of passwords.
func TestCheckPassword(t *testing.T) {
	for password, ok := range map[string]bool{
		"1234567": false, "12345678": true, "äöüäöüäö": true, "äöüäöüä": false, strings.Repeat("x", 256): true, strings.Repeat("x", 257): false,
		"12345678\n": false, "1234567\xff": false,
	} {
		if bad := CheckPassword(password); (bad == "") != ok {
			t.Errorf("%q: %q", password, bad)
		}
	}
}

// BenchmarkPassword is what a login costs that is not turned away.
func BenchmarkPassword(b *testing.B) {
	h := NewHasher(DefaultCost)
	hash, err := h.Hash(b.Context(), "correct horse")
	for b.Loop() {
		if same, failed := h.Verify(b.Context(), "correct horse", hash); !same || failed != nil || err != nil {
			b.Fatal(same, failed, err)
		}
	}
}

package tokencache

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/filter/contract"
)

// directory is a run directory with the settings of one filter, over real files.
type directory struct {
	t       *testing.T
	dir     string
	control *fakeControl
	store   *fakeStore
	clock   *fakeClock
	cp      contract.ControlPlaneSettings
	// files are the disk, unless it is the directory as it is.
	files func(dir string) files
	// leaveTimeout is how long a goodbye waits for the disk and for whoever hears it; 0 is the
	// real time.
	leaveTimeout time.Duration
}

func newDirectory(t *testing.T) *directory {
	t.Helper()
	d := &directory{t: t, dir: t.TempDir(), store: &fakeStore{values: map[string][]byte{}}, clock: &fakeClock{}, leaveTimeout: patience}
	cert, ca := testCertificate(t, d.dir)
	token := "secret"
	writeFile(t, filepath.Join(d.dir, "token"), []byte(token))
	d.control = &fakeControl{t: t, cert: cert, links: make(chan *fakeLink, 64), auto: true}
	d.control.token.Store(&token)
	d.cp = contract.ControlPlaneSettings{Address: "localhost:5678", CAFile: ca, TokenFile: filepath.Join(d.dir, "token"), Node: "cp/default/1"}
	d.settings()
	r := testRecord(1, 5)
	r.Until = d.clock.Now().millis() + (1000 * time.Hour).Milliseconds()
	d.store.putRecord(t, 1, r)
	d.store.putClock(1 << 20)
	return d
}

func (d *directory) settings() {
	writeSettings(d.t, filepath.Join(d.dir, "settings.json"), &contract.Settings{
		Redis: &contract.RedisSettings{URL: "redis://redis"}, RecordKeys: testKeys(testKey),
		ControlPlane: &d.cp, Cache: contract.CacheSettings{MaxBytes: 1 << 20},
	})
}

func (d *directory) open() *Cache {
	d.t.Helper()
	c, err := Open(Options{
		Path: filepath.Join(d.dir, "settings.json"), Logger: slog.New(slog.DiscardHandler), DialLink: d.control.dial, Clock: d.clock,
		openStore: func(*contract.RedisSettings, []string) (store, error) { return d.store, nil },
		openFiles: d.files, leaveTimeout: d.leaveTimeout,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(c.Close)
	return c
}

// unlinked waits until a cache has seen the end of its link.
func unlinked(t *testing.T, c *Cache) {
	t.Helper()
	soon(t, "the filter sees the end of its link", func() bool { return !c.Stats().Linked })
}

// soon waits for a state that a goroutine of a cache brings about.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not in time: %s", what)
		}
	}
}

func (d *directory) path() string { return filepath.Join(d.dir, trustFile) }

// file is what the trust file says, nil if there is none.
func (d *directory) file() *rememberedTrust {
	d.t.Helper()
	data, err := os.ReadFile(d.path())
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		d.t.Fatal(err)
	}
	r, err := parseTrust(data)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

func (d *directory) write(r *rememberedTrust) {
	d.t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		d.t.Fatal(err)
	}
	writeFile(d.t, d.path(), data)
}

// leased is a file of which everything is as it should be.
func (d *directory) leased() *rememberedTrust {
	return &rememberedTrust{Address: d.cp.Address, Node: d.cp.Node, Trust: testTrust, Scopes: testScopes, Leased: d.clock.Now().millis()}
}

// When the control plane has the acknowledgement, a filter that starts again
// knows it, too, whatever ends this one.
func TestTrustIsOnDiskBeforeItIsAcknowledged(t *testing.T) {
	d := newDirectory(t)
	d.open()
	l := d.control.accept()
	l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog})
	for at, trust := range []contract.Trust{testTrust, {}, {Epoch: 5, Servers: []string{"a", "b"}}} {
		l.trust(contract.Position(at+1), trust)
		l.expectAck(contract.Position(at + 1))
		r := d.file()
		if r == nil || r.Address != d.cp.Address || r.Node != d.cp.Node {
			t.Fatalf("on disk: %+v", r)
		}
		if diff := cmp.Diff(trust, r.Trust); diff != "" {
			t.Errorf("on disk (-want +got):\n%s", diff)
		}
	}
	if info, err := os.Stat(d.path()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(d.dir, ".*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A run directory that cannot be written keeps no link down. What a filter that
// starts there would believe decides over what is durable: nothing, or an older
// trust. The directory is tried again.
func TestTrustThatCannotBeWritten(t *testing.T) {
	d := newDirectory(t)
	var full, stuck atomic.Bool
	d.files = func(dir string) files { return fullFiles{runDirectory(dir), &full, &stuck} }
	full.Store(true)
	c := d.open()
	l := d.control.accept()
	l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog, Trust: testTrust})
	l.invalidate(1)
	l.expectAck(1)
	if d.file() != nil {
		t.Error("the file is there")
	}
	stuck.Store(true)
	l.trust(2, contract.Trust{})
	if got, want := l.ack(), (contract.Ack{Applied: 2, Durable: 1}); got != want {
		t.Errorf("acknowledged %+v, want %+v", got, want)
	}
	l.invalidate(3)
	if got, want := l.ack(), (contract.Ack{Applied: 3, Durable: 1}); got != want {
		t.Errorf("acknowledged %+v, want %+v", got, want)
	}
	if s := c.Stats(); s.Epoch != 0 || !s.Linked {
		t.Errorf("%+v", s)
	}
	full.Store(false)
	l.expectAck(3)
	if r := d.file(); r == nil || r.Trust.Epoch != 0 {
		t.Errorf("on disk: %+v", r)
	}
}

// A filter that starts while the control plane is away believes what its
// predecessor was told, if it was told so by this control plane, for this node,
// and not too long ago.
func TestTrustIsRecalled(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*directory, *rememberedTrust)
		want   contract.Answer
	}{
		"as it was":        {func(*directory, *rememberedTrust) {}, contract.Found},
		"no file":          {func(d *directory, _ *rememberedTrust) { _ = os.Remove(d.path()) }, contract.Unavailable},
		"another address":  {func(d *directory, r *rememberedTrust) { r.Address = "elsewhere:1"; d.write(r) }, contract.Unavailable},
		"another node":     {func(d *directory, r *rememberedTrust) { r.Node = "cp/default/2"; d.write(r) }, contract.Unavailable},
		"taken back":       {func(d *directory, r *rememberedTrust) { r.Trust = contract.Trust{}; d.write(r) }, contract.Unavailable},
		"another epoch":    {func(d *directory, r *rememberedTrust) { r.Trust.Epoch++; d.write(r) }, contract.Unavailable},
		"nameless servers": {func(d *directory, r *rememberedTrust) { r.Trust.Servers = nil; d.write(r) }, contract.Unavailable},
		"never leased":     {func(d *directory, r *rememberedTrust) { r.Leased = 0; d.write(r) }, contract.Unavailable},
		"long ago":         {func(d *directory, _ *rememberedTrust) { d.clock.step.Add(int64(contract.TrustFor)) }, contract.Unavailable},
		"nearly long ago":  {func(d *directory, _ *rememberedTrust) { d.clock.step.Add(int64(contract.TrustFor - time.Minute)) }, contract.Found},
		"in the future":    {func(d *directory, _ *rememberedTrust) { d.clock.step.Add(-int64(contract.LeaseAhead + time.Minute)) }, contract.Unavailable},
		"damaged":          {func(d *directory, _ *rememberedTrust) { writeFile(t, d.path(), []byte(`{"address"`)) }, contract.Unavailable},
		"cut off":          {func(d *directory, _ *rememberedTrust) { writeFile(t, d.path(), nil) }, contract.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t)
			r := d.leased()
			d.write(r)
			tc.change(d, r)
			d.control.down.Store(true)
			c := d.open()
			if got := ask(t, c, 1); got != tc.want {
				t.Errorf("answer %d, want %d (%+v)", got, tc.want, c.Stats())
			}
		})
	}
}

// What an earlier process was told counts until the first welcome, and no longer.
func TestWelcomeReplacesWhatWasRecalled(t *testing.T) {
	d := newDirectory(t)
	d.write(d.leased())
	d.control.introspect = func(*contract.Introspect) *contract.Result {
		return &contract.Result{Answer: contract.Unknown, Revision: 9}
	}
	c := d.open()
	l := d.control.accept()
	if got := ask(t, c, 1); got != contract.Found {
		t.Errorf("before the welcome: %d", got)
	}
	l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog})
	l.invalidate(1)
	l.expectAck(1)
	if got := ask(t, c, 1); got != contract.Unknown {
		t.Errorf("after it: %d", got)
	}
	if r := d.file(); r == nil || r.Trust.Epoch != 0 {
		t.Errorf("on disk: %+v", r)
	}
}

// A filter that says goodbye is forgotten, and then nobody tells it of revocations
// that do not reach Redis: it leaves nothing behind that a later one would believe.
// A filter that cannot say goodbye is not forgotten.
func TestGoodbyeForgetsTrust(t *testing.T) {
	for name, linked := range map[string]bool{"with a goodbye": true, "without a link": false} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t)
			c := d.open()
			l := d.control.accept()
			l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog, Trust: testTrust})
			l.invalidate(1)
			l.expectAck(1)
			d.control.down.Store(true)
			if !linked {
				_ = l.conn.Close()
				unlinked(t, c)
			}
			c.Close()
			if linked {
				l.expect(contract.FrameBye)
			}
			if r := d.file(); (r == nil) != linked {
				t.Errorf("on disk: %+v", r)
			}
		})
	}
	t.Run("not if it cannot forget", func(t *testing.T) {
		d := newDirectory(t)
		c := d.open()
		l := d.control.accept()
		l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog, Trust: testTrust})
		l.invalidate(1)
		l.expectAck(1)
		soon(t, "the first lease is noted", func() bool { return d.file().Leased != 0 })
		if err := os.Remove(d.path()); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(d.path(), "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		c.Close()
		l.expectEnd()
	})
	t.Run("also if another trust was on its way", func(t *testing.T) {
		d := newDirectory(t)
		c := d.open()
		l := d.control.accept()
		l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog, Trust: testTrust})
		l.invalidate(1)
		l.expectAck(1)
		cp := c.config.Load().settings.ControlPlane
		if err := c.disk.await(c.forgetTrust(cp)); err != nil {
			t.Fatal(err)
		}
		next := contract.Trust{Epoch: testEpoch + 1, Servers: testTrust.Servers}
		if _, err := c.entrusted(cp, &contract.TrustChange{At: 2, Trust: next}); !errors.Is(err, errMoved) {
			t.Errorf("%v", err)
		}
		if r := d.file(); r != nil {
			t.Errorf("on disk after the goodbye: %+v", r)
		}
		c.Close()
	})
	t.Run("also if it comes back with another token file", func(t *testing.T) {
		d := newDirectory(t)
		c := d.open()
		l := d.control.accept()
		l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog, Trust: testTrust})
		l.invalidate(1)
		l.expectAck(1)
		d.control.down.Store(true)
		d.cp.TokenFile = filepath.Join(d.dir, "none")
		d.settings()
		l.expect(contract.FrameBye)
		unlinked(t, c)
		if got := ask(t, c, 1); got != contract.Unavailable || d.file() != nil {
			t.Errorf("answer %d, on disk: %+v", got, d.file())
		}
	})
	t.Run("but not what another control plane said", func(t *testing.T) {
		d := newDirectory(t)
		d.open()
		l := d.control.accept()
		l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog, Trust: testTrust})
		l.invalidate(1)
		l.expectAck(1)
		soon(t, "the first lease is noted", func() bool { return d.file().Leased != 0 })
		other := d.leased()
		other.Node = "cp/default/2"
		d.write(other)
		d.cp.Node = other.Node
		d.settings()
		l.expect(contract.FrameBye)
		if r := d.file(); r == nil || r.Node != other.Node {
			t.Errorf("on disk: %+v", r)
		}
	})
}

// Settings that turn to another control plane take the trust of the former with
// them.
func TestTrustBelongsToItsControlPlane(t *testing.T) {
	d := newDirectory(t)
	d.write(d.leased())
	d.control.down.Store(true)
	c := d.open()
	if got := ask(t, c, 1); got != contract.Found {
		t.Errorf("before: %d", got)
	}
	s := *c.base
	other := d.cp
	other.Node = "cp/default/2"
	s.ControlPlane = &other
	if err := c.reconfigure(&s); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, c, 1); got != contract.Unavailable {
		t.Errorf("another node: %d", got)
	}
	first := s
	first.ControlPlane = &d.cp
	if err := c.reconfigure(&first); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, c, 1); got != contract.Found {
		t.Errorf("the first again: %d", got)
	}
}

// A Welcome of the former control plane that comes after the settings have turned to another
// one takes nothing away of what that one has said to an earlier process. None comes amid.
func TestWelcomeOfTheFormerControlPlane(t *testing.T) {
	d := newDirectory(t)
	d.write(d.leased())
	d.control.down.Store(true)
	first, former := d.cp, d.cp
	former.Node = "cp/default/2"
	d.cp = former
	d.settings()
	var c *Cache
	amid := false
	opened, err := Open(Options{
		Path: filepath.Join(d.dir, "settings.json"), Logger: slog.New(slog.DiscardHandler), DialLink: d.control.dial, Clock: d.clock,
		openStore: func(*contract.RedisSettings, []string) (store, error) {
			if c != nil && c.believing.TryRLock() {
				c.believing.RUnlock()
				amid = true
			}
			return d.store, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	c = opened
	s := *c.base
	s.ControlPlane = &first
	if err := c.reconfigure(&s); err != nil {
		t.Fatal(err)
	}
	if amid {
		t.Error("a Welcome may come while the settings turn to another control plane")
	}
	if got := ask(t, c, 1); got != contract.Found {
		t.Errorf("before the Welcome: %d", got)
	}
	late := newSession(c, nil, former)
	_, moved, err := c.follow(late, &contract.Welcome{Log: "another", Scopes: &contract.Scopes{Of: "x", Members: []string{"x"}}, Trust: contract.Trust{Epoch: 9}})
	c.session.CompareAndSwap(late, nil)
	if err != nil || !moved {
		t.Errorf("followed: %v, %v", moved, err)
	}
	if got := ask(t, c, 1); got != contract.Found {
		t.Errorf("after the Welcome: %d", got)
	}
}

// The time of the last lease is written with the first one and then hourly, not
// with each of the many.
func TestLastLeaseIsNotedHourly(t *testing.T) {
	d := newDirectory(t)
	c := d.open()
	l := d.control.accept()
	l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog, Trust: testTrust})
	l.invalidate(1)
	l.expectAck(1)
	d.control.down.Store(true)
	_ = l.conn.Close()
	unlinked(t, c) // leases are the test's from here on
	note := func(after time.Duration) (at int64, due bool) {
		d.clock.add(after)
		now := d.clock.Now()
		c.lastLease.Store(&now)
		due = c.disk.noteDue(now.millis())
		c.noteLease(&d.cp)
		return now.millis(), due
	}
	written := func(at int64) {
		t.Helper()
		soon(t, "the lease is noted", func() bool { return d.file().Leased == at })
	}
	first, _ := note(leaseNoted)
	written(first)
	if _, due := note(leaseNoted - time.Second); due {
		t.Error("noted again within the hour")
	}
	second, _ := note(time.Second)
	written(second)
	info, err := os.Stat(d.path())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// FuzzTrustFile reads what may stand in the run directory. What it takes can be
// written and read again.
func FuzzTrustFile(f *testing.F) {
	f.Add([]byte(`{"address":"a:1","node":"n","trust":{"epoch":18446744073709551615,"servers":["a","b"]},"leased_ms":1}`))
	f.Add([]byte(`{"address":"a:1","node":"n","trust":{"epoch":1,"servers":["b","a"]}}`))
	f.Add([]byte(`{"leased_ms":-1}`))
	f.Add([]byte(`{"trust":{"epoch":-1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseTrust(data)
		if err != nil {
			return
		}
		if r.Leased < 0 || len(r.Trust.Servers) > contract.MaxServers {
			t.Fatalf("%+v", r)
		}
		c := &Cache{clock: &fakeClock{}}
		c.recalled(r) // no arithmetic of times overflows
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseTrust(again); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
	})
}

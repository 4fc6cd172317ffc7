package tokencache

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// stallingFiles is a run directory on a disk that may stall: then what is written
// or removed has to wait.
type stallingFiles struct {
	runDirectory
	stalled *atomic.Pointer[chan struct{}]
}

func (f stallingFiles) wait() {
	if c := f.stalled.Load(); c != nil {
		<-*c
	}
}

func (f stallingFiles) write(name string, data []byte) error {
	f.wait()
	return f.runDirectory.write(name, data)
}

func (f stallingFiles) remove(name string) error {
	f.wait()
	return f.runDirectory.remove(name)
}

// stalling gives a directory such a disk. stall stalls it until the release, at the
// latest until the end of the test.
func (d *directory) stalling() (stall func() (release func())) {
	var stalled atomic.Pointer[chan struct{}]
	d.files = func(dir string) files { return stallingFiles{runDirectory(dir), &stalled} }
	return func() func() {
		c := make(chan struct{})
		stalled.Store(&c)
		release := func() {
			if stalled.CompareAndSwap(&c, nil) {
				close(c)
			}
		}
		d.t.Cleanup(release)
		return release
	}
}

// fullFiles is a run directory on a disk that refuses to be written, and maybe to
// have something removed.
type fullFiles struct {
	runDirectory
	full, stuck *atomic.Bool
}

func (f fullFiles) write(name string, data []byte) error {
	if f.full.Load() {
		return syscall.ENOSPC
	}
	return f.runDirectory.write(name, data)
}

func (f fullFiles) remove(name string) error {
	if f.stuck.Load() {
		return syscall.EROFS
	}
	return f.runDirectory.remove(name)
}

// A disk that stalls delays no revocation and costs no lease: the control plane
// learns at once what is applied, and what is on disk when it is.
func TestStalledDiskHoldsNothingUp(t *testing.T) {
	d := newDirectory(t)
	stall := d.stalling()
	c := d.open()
	d.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
	l := d.control.accept()
	l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog})
	l.invalidate(1)
	l.expectAck(1)
	soon(t, "the first lease", func() bool { return c.Stats().Leased })
	if got := ask(t, c, 1); got != contract.Found {
		t.Fatalf("look-up: %d", got)
	}
	said := func(applied, durable contract.Position) {
		t.Helper()
		if got, want := l.ack(), (contract.Ack{Applied: applied, Durable: durable}); got != want {
			t.Fatalf("acknowledged %+v, want %+v", got, want)
		}
	}
	release := stall()
	l.trust(2, testTrust)
	said(2, 1)
	l.expect(contract.FrameInUse)
	l.json(contract.FrameLevel2, contract.Level2{Keys: testKeys(testKey)})
	l.invalidate(3, tokenGone(1, 6))
	said(3, 1)
	if _, got := c.Lookup(hashOf(1), make([]byte, contract.MaxPacked)); got != contract.Miss {
		t.Errorf("the revoked token in memory: %d", got)
	}
	l.trust(4, contract.Trust{})
	said(4, 1)
	if s := c.Stats(); s.Epoch != 0 {
		t.Errorf("trust that was taken back is believed: %+v", s)
	}
	l.trust(5, testTrust)
	said(5, 1)
	before := l.renewed.Load()
	soon(t, "another lease", func() bool { return l.renewed.Load() > before })
	if r := d.file(); r.Trust.Epoch != 0 {
		t.Errorf("on disk: %+v", r)
	}
	release()
	l.expectAck(5)
	if r := d.file(); r.Trust.Epoch != testEpoch {
		t.Errorf("on disk: %+v", r)
	}
}

// What is being written while more comes is durable up to what came next, and no
// further.
func TestTrustIsDurableUpToTheNext(t *testing.T) {
	s := &session{cache: &Cache{}, ackReady: make(chan struct{}, 1), unsaved: []unsaved{{1, 0}}}
	disk := &s.cache.disk
	for _, step := range []struct {
		at      contract.Position
		trust   uint64 // number of its wish
		done    uint64
		durable contract.Position
	}{
		{at: 1, durable: 0},           // the welcome's is not on disk
		{at: 2, done: 1, durable: 2},  // now it is
		{at: 3, trust: 2, durable: 2}, // and another is not
		{at: 4, trust: 3, durable: 2},
		{at: 5, trust: 4, durable: 2},
		{at: 6, done: 2, durable: 3}, // of those behind it only the last is written
		{at: 7, trust: 5, durable: 3},
		{at: 8, done: 3, durable: 3},
		{at: 9, done: 5, durable: 9},
	} {
		disk.done = max(disk.done, step.done)
		var trust *unsaved
		if step.trust != 0 {
			trust = &unsaved{step.trust, step.at - 1}
		}
		s.took(step.at, trust)
		if got, want := s.ack(), (contract.Ack{Applied: step.at, Durable: step.durable}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if len(s.unsaved) > maxUnsaved {
			t.Errorf("%d trusts are remembered", len(s.unsaved))
		}
	}
}

// entrusted accepts the link of a filter, and returns when what it was told to believe
// is on its disk, and its first lease, too.
func (d *directory) entrusted() *fakeLink {
	d.t.Helper()
	l := d.control.accept()
	l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog, Trust: testTrust})
	l.invalidate(1)
	l.expectAck(1)
	soon(d.t, "the first lease is noted", func() bool { return d.file().Leased != 0 })
	return l
}

// closing closes a cache, and yields when that is done.
func closing(c *Cache) <-chan struct{} {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.Close()
	}()
	return closed
}

// A goodbye waits for the disk, but not for ever: then there is none, and the
// control plane counts on what may still be there.
func TestNoGoodbyeWithoutTheDisk(t *testing.T) {
	d := newDirectory(t)
	d.leaveTimeout = 0
	stall := d.stalling()
	c := d.open()
	l := d.entrusted()
	release := stall()
	closed := closing(c)
	l.expectEnd()
	release()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("the cache does not close")
	}
}

// Settings that turn away and back while a goodbye waits for the disk bring nothing
// back: the control plane will not know that it is believed.
func TestNothingIsRecalledThatIsBeingForgotten(t *testing.T) {
	d := newDirectory(t)
	stall := d.stalling()
	d.write(d.leased())
	d.control.down.Store(true)
	c := d.open()
	s := *c.base
	other := d.cp
	other.Node = "cp/default/2"
	s.ControlPlane = &other
	if err := c.reconfigure(&s); err != nil {
		t.Fatal(err)
	}
	defer stall()()
	c.forgetTrust(&d.cp)
	back := s
	back.ControlPlane = &d.cp
	if err := c.reconfigure(&back); err != nil {
		t.Fatal(err)
	}
	if got := c.Stats().Epoch; got != 0 {
		t.Errorf("epoch %d is believed", got)
	}
}

// A cache that is opened while another one of the process takes leave of the same run
// directory does not believe what that is forgetting: nobody would know that it does.
func TestNothingIsRecalledThatAnotherCacheIsForgetting(t *testing.T) {
	d := newDirectory(t)
	stall := d.stalling()
	first := d.open()
	l := d.entrusted()
	d.control.down.Store(true)
	release := stall()
	closed := closing(first)
	soon(t, "it takes leave", func() bool { return first.Stats().Epoch == 0 })
	second := d.open()
	release()
	<-closed
	l.expect(contract.FrameBye)
	if got := ask(t, second, 1); got != contract.Unavailable {
		t.Errorf("after the goodbye of the first: %d", got)
	}
	second.Close()
	d.write(d.leased())
	if got := ask(t, d.open(), 1); got != contract.Found {
		t.Errorf("with nobody else there: %d", got)
	}
}

package meshca

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/steady"
)

// reading returns the time as a host reads it whose wall clock shows wall and whose
// monotonic clock has run for elapsed. The monotonic clock stands still while the host
// sleeps. Package time has no function that makes such a time, and times in a bubble have no
// monotonic clock at all.
func reading(wall time.Time, elapsed time.Duration) time.Time {
	type fields struct {
		wall uint64 // a flag, 33 bits of seconds since 1885, 30 bits of nanoseconds
		ext  int64
		loc  *time.Location
	}
	at := func(wall time.Time, elapsed time.Duration) (t time.Time) {
		seconds := wall.Unix() - time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		*(*fields)(unsafe.Pointer(&t)) = fields{1<<63 | uint64(seconds)<<30 | uint64(wall.Nanosecond()), int64(elapsed) + 1, time.Local}
		return t
	}
	t := at(wall, elapsed)
	if !t.Round(0).Equal(wall) || at(wall.Add(time.Hour), elapsed).Sub(t) != 0 {
		panic("package time reads the clocks in another form")
	}
	return t
}

// TestLeafAfterSleep: a certificate that ended while the host slept is not reused.
func TestLeafAfterSleep(t *testing.T) {
	wt := newWorkloadTest(t, identitytest.Memory(t))
	cert, key, err := GenerateRoot("m", "ca", nil)
	if err != nil {
		t.Fatal(err)
	}
	wt.authority(identity.KeyPair{Certificate: cert, Key: key})
	base, slept := time.Now().Round(0), time.Duration(0)
	w := NewWorkloads(wt.store, func() time.Time { return reading(base.Add(slept), 0) })
	issue := func() *Leaf {
		t.Helper()
		leaf, err := w.Issue(t.Context(), "m", "web")
		if err != nil {
			t.Fatal(err)
		}
		return leaf
	}
	first := issue()
	if issue() != first {
		t.Error("a new certificate is not given out again")
	}
	slept = WorkloadLife + time.Hour
	if again := issue(); again == first || !again.NotAfter.After(base.Add(slept)) {
		t.Errorf("a certificate is given out that ended at %v", again.NotAfter)
	}
}

// TestLeafOfClockThatWasAhead: a certificate that was signed while the clock was ahead is
// not valid yet once the clock is right again, and another one is issued.
func TestLeafOfClockThatWasAhead(t *testing.T) {
	wt := newWorkloadTest(t, identitytest.Memory(t))
	wt.clock.Advance(time.Hour)
	ahead := wt.issue()
	wt.clock.Advance(-identity.Backdate)
	if wt.issue() != ahead {
		t.Error("a certificate that is valid is not given out again")
	}
	wt.clock.Advance(-time.Hour)
	if wt.issue() == ahead {
		t.Error("a certificate is given out that is not valid yet")
	}
}

// signedOver rotates from a to b while "away" has a certificate of a. It calls before just
// before b signs.
func (rt *rotationTest) signedOver(before func()) (a, b *identity.KeyPair) {
	a, b = rt.pair(), rt.pair()
	rt.builtin("m", "here", "away")
	rt.ask("m", a)
	rt.confirmAll("m", "here", "away")
	rt.ask("m", b)
	before()
	rt.confirmAll("m", "here", "away")
	rt.progress.disconnect("m", "away")
	rt.confirmAll("m", "here")
	rt.expect("m", b, a, b)
	return a, b
}

// TestRotationOfClockThatJumps: a wall clock that jumps ahead and comes back removes no root,
// even if it was ahead for longer than the window in which a jump counts for short lives.
func TestRotationOfClockThatJumps(t *testing.T) {
	for name, test := range map[string]struct{ life, ahead time.Duration }{
		"a day":   {WorkloadLife, time.Minute},
		"a month": {30 * 24 * time.Hour, steady.Window + 3*time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			rotationBubble(t, func(rt *rotationTest) {
				var ahead time.Duration
				rt.now, rt.life = func() time.Time { return time.Now().Add(ahead) }, test.life
				a, b := rt.signedOver(func() {})
				signed := time.Now()
				ahead = 2 * test.life
				rt.changed("m") // as any write of a secret of the mesh does
				time.Sleep(test.ahead)
				rt.changed("m")
				ahead = 0
				rt.changed("m")
				rt.expect("m", b, a, b)
				time.Sleep(test.life + identity.Backdate - time.Since(signed))
				synctest.Wait()
				rt.expect("m", b, b)
			})
		})
	}
}

// TestRotationOfClockThatIsBehind: a root that retires while the clock is behind is trusted
// until the certificates end that were signed while the clock was right.
func TestRotationOfClockThatIsBehind(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		var behind time.Duration
		rt.now = func() time.Time { return time.Now().Add(-behind) }
		a, b := rt.signedOver(func() { behind = 10 * time.Hour })
		signed := time.Now()
		rt.stop()
		behind = 0
		rt.start() // without memory of the former clock
		time.Sleep(WorkloadLife - time.Since(signed))
		synctest.Wait()
		rt.expect("m", b, a, b)
		time.Sleep(identity.Backdate)
		synctest.Wait()
		rt.expect("m", b, b)
	})
}

// TestRenewalIsDueByTheWallClock: the noted times of new certificates carry readings of the
// monotonic clock, but are compared without them.
func TestRenewalIsDueByTheWallClock(t *testing.T) {
	now := reading(time.Now(), time.Hour)
	r := NewRenewals(nil)
	r.now = func() time.Time { return now }
	r.Note("m", "short", now, now.Add(24*time.Hour))
	r.Note("m", "long", now, now.Add(240*time.Hour))
	now = reading(now.Round(0).Add(23*time.Hour), time.Hour) // it slept
	if e, _ := r.next(); e == nil || e.dataplane != "short" {
		t.Errorf("due after the sleep: %+v", e)
	}
	if e, at := r.next(); e != nil || !at.After(now) {
		t.Errorf("due after the sleep as well: %+v, %v", e, at)
	}
}

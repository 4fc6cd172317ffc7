package revoke

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/steady/steadytest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
)

const day = 24 * time.Hour

// openStore opens the store of the first process.
func (w *world) openStore() store.Store {
	w.t.Helper()
	var s store.Store
	if w.wall != nil {
		w.now, w.clock, w.file = w.wall.Now, w.wall.Begin(), filepath.Join(memoryDir(w.t), "meshgate.db")
		s = w.openFile()
	} else {
		s = memstore.New()
	}
	if w.fresh {
		return s
	}
	// A process without Redis has admitted no filter.
	if err := writeEpoch(w.t.Context(), s, Epoch{Log: "former", Told: true, Within: true, Clean: true}); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// openFile opens the database for a process, as the control plane does. Rows that have
// expired by its clock are removed for good a moment later.
func (w *world) openFile() store.Store {
	w.t.Helper()
	keys, err := seal.New(make([]byte, seal.RootSize))
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := sqlstore.Open(context.Background(), sqlstore.Options{
		Path: w.file, Kinds: append(gateway.Kinds(), Kinds()...), Sealer: keys, Log: slog.New(slog.DiscardHandler),
		Now: w.wall.Now, Past: w.wall.Past,
		Begin: func(tx store.Tx) error { return NoteTime(tx, w.clock) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// nextClock sets the clock of a process that starts. A process that follows another one
// opens its database anew.
func (w *world) nextClock() {
	if w.wall == nil {
		return
	}
	w.clock = w.wall.Begin()
	if w.r == nil {
		return
	}
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
	w.store = w.openFile()
	w.source.store = w.store
}

// memoryDir returns a directory in memory if the system has one, because each commit waits
// for its disk.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "revoke-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// A wall clock that jumps in any way makes no process forget a revocation too early.
func TestClockThatJumpsRevivesNothing(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(j *jumping){
		"ahead, and back": func(j *jumping) {
			j.must(j.touchApp())
			j.revoked(j.touchApp(), "a")
			j.wall.Set(2 * day)
			j.rest()
			j.use("b")
			j.wall.Set(0)
			j.rest()
		},
		"back, and ahead again": func(j *jumping) {
			j.wall.Set(-2 * day)
			j.rest()
			j.revoked(j.touchApp(), "a")
			j.wall.Set(0)
			j.rest()
			j.use("b")
		},
		"ahead between commit and publication": func(j *jumping) {
			publish, _ := j.r.Begin()
			c, err := j.commit(j.touchApp())
			if err != nil {
				j.t.Fatal(err)
			}
			j.wall.Set(2 * day)
			if err := publish(context.Background(), c); err != nil {
				j.t.Fatal(err)
			}
			j.sure["a"] = c.Revision
			j.rest()
		},
		"ahead between two processes": func(j *jumping) {
			j.revoked(j.touchApp(), "a")
			j.restart(2 * day)
			j.use("b")
			j.wall.Set(0)
			j.rest()
		},
		"a little ahead between many processes": func(j *jumping) {
			const little = 9 * time.Minute
			j.sleep(time.Hour)
			j.revoked(j.touchApp(), "a")
			j.sleep(contract.RecordLife - 2*time.Hour)
			for i := range time.Duration(16) {
				j.restart((i + 1) * little)
			}
			j.use("b")
		},
		"back after days": func(j *jumping) {
			j.restart(5 * day)
			j.use("a")
			j.sleep(20 * time.Hour)
			j.wall.Set(0)
			j.sleep(27 * time.Hour)
			j.revoked(j.touchApp(), "a")
			j.sleep(25 * time.Hour)
			j.use("b")
		},
		"back after days, between two processes": func(j *jumping) {
			j.restart(5 * day)
			j.use("a")
			j.restart(0)
			j.revoked(j.touchApp(), "a")
			j.sleep(25 * time.Hour)
			j.use("b")
		},
		"back after days, between two processes, long ago": func(j *jumping) {
			j.restart(5 * day)
			j.use("a")
			j.restart(0)
			j.sleep(27 * time.Hour)
			j.revoked(j.touchApp(), "a")
			j.sleep(25 * time.Hour)
			j.use("b")
		},
		"ahead between two processes, one of which sees no redis": func(j *jumping) {
			j.revoked(j.touchApp(), "a")
			j.redis.be(gone)
			j.restart(2 * day)
			j.redis.be(fine)
			j.restart(2 * day)
			j.use("b")
		},
		"ahead, and back, for processes that see no redis": func(j *jumping) {
			j.revoked(j.touchApp(), "a")
			j.redis.be(gone)
			j.restart(2 * day)
			j.restart(0)
			j.redis.be(fine)
			j.rest()
			j.use("b")
		},
		"ahead, and back, for processes that do not reach what holds the record": func(j *jumping) {
			name := j.mint("c", false)
			j.rest()
			j.redis.be(gone)
			j.revoked(j.remove(name), "c")
			j.restart(2 * day)
			j.restart(0)
			j.redis.be(fine)
			j.rest()
		},
		"ahead, and back after a crash, for processes that see no redis": func(j *jumping) {
			j.revoked(j.touchApp(), "a")
			j.redis.be(gone)
			j.hop(2*day, true)
			j.hop(0, false)
			j.redis.be(fine)
			j.rest()
			j.use("b")
		},
	} {
		for _, naive := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, at its word %v", name, naive), func(t *testing.T) {
				t.Parallel()
				jumps(t, naive, func(j *jumping) {
					j.mint("a", false)
					j.mint("b", false)
					j.rest()
					play(j)
					if len(j.sure) == 0 {
						t.Error("nothing was revoked with success")
					}
					if found := j.wrong != nil; found != naive {
						t.Errorf("at its word %v: %v", naive, j.wrong)
					}
				})
			})
		}
	}
}

// revoked calls revoke, which must succeed.
func (j *jumping) revoked(how func(store.Tx) error, values ...string) {
	j.t.Helper()
	if err := j.revoke(how, values...); err != nil {
		j.t.Fatal(err)
	}
}

// sleep lets time pass in which nothing happens. Meanwhile Redis is checked once a minute,
// and once a second towards the end.
func (j *jumping) sleep(d time.Duration) {
	const seldom = time.Minute
	if d > 2*seldom {
		j.pause.Store(int64(seldom))
		time.Sleep(d - 2*seldom)
		j.pause.Store(0)
		d = 2 * seldom
	}
	time.Sleep(d)
	j.rest()
}

// A clock that jumps and comes back voids nothing in Redis.
func TestClockThatJumpsVoidsNothing(t *testing.T) {
	for _, off := range []time.Duration{2 * day, -2 * day} {
		jumps(t, false, func(j *jumping) {
			j.mint("a", false)
			j.rest()
			before := j.trust().Epoch
			for _, at := range []time.Duration{off, 0} {
				j.wall.Set(at)
				j.must(j.touchApp())
				j.rest()
			}
			if now := j.trust().Epoch; now != before {
				t.Errorf("set by %v, epoch %d after %d", off, now, before)
			}
		})
	}
}

// A token that expires by a clock that is ahead is revoked all the same, because filters
// still accept it by their clocks.
func TestWhatIsOverByAClockThatIsAheadIsRevoked(t *testing.T) {
	for _, naive := range []bool{true, false} {
		jumps(t, naive, func(j *jumping) {
			name := j.mint("a", false)
			j.must(func(tx store.Tx) error {
				res, err := tx.Get(gateway.Tokens, scope, name)
				if err == nil {
					res.Spec.(*gateway.Token).DropAt = time.Now().Add(2 * time.Hour).UnixMilli()
					_, err = tx.Update(res, 0)
				}
				return err
			})
			j.use("a")
			j.wall.Set(3 * time.Hour)
			err := j.revoke(j.remove(name), "a")
			if revoked := j.redis.entry(t, "a").Revoked != 0; revoked == naive || fault.Is(err, fault.NotFound) != naive {
				t.Errorf("at its word %v: %v, in Redis %v", naive, err, revoked)
			}
		})
	}
}

// A filter that may believe a former server is waited for as long as it may, wherever the
// clock is, even if it is connected when a process starts.
func TestClockThatJumpsForgetsNoFilter(t *testing.T) {
	for _, restart := range []bool{true, false} {
		t.Run(fmt.Sprintf("between two processes %v", restart), func(t *testing.T) {
			jumps(t, false, func(j *jumping) {
				f, _ := j.pipe("node", contract.Hello{Instance: "i"})
				j.rest()
				f.cut()
				j.redis.be(gone)
				name := j.mint("c", false)
				j.rest()
				if restart {
					j.restart(2 * day)
				}
				j.wall.Set(2 * day)
				j.sleep(rememberEvery)
				j.wall.Set(0)
				says(t, j.revoke(j.remove(name)), "1 of 1 gateways")
			})
		})
	}
}

// If the clock of Redis is far behind, a record ends by that clock, because the clock of
// the control plane may have been ahead since it started.
func TestRecordsEndByTheEarlierClock(t *testing.T) {
	for ahead, want := range map[time.Duration]time.Duration{
		-2 * day: 0, -time.Minute: 2 * day, 2 * day: 2 * day,
	} {
		synctest.Test(t, func(t *testing.T) {
			redis := newScripted("run-1")
			w := &world{t: t, virtual: true, remote: otherwise{redis, ahead}, wall: &steadytest.Hand{}}
			w.wall.Set(2 * day)
			w.init(nil)
			time.Sleep(watchEvery)
			w.mint("a", false)
			synctest.Wait()
			until := time.UnixMilli(redis.entry(t, "a").Record.Until)
			if got := time.Until(until).Round(time.Minute); got != want+contract.RecordLife {
				t.Errorf("redis %v ahead: the record ends in %v", ahead, got)
			}
		})
	}
}

// otherwise is a Redis with another clock.
type otherwise struct {
	*scripted
	by time.Duration
}

func (a otherwise) pin(ctx context.Context) ([]redisconn.Server, error) { return a.identify(ctx) }

func (a otherwise) identify(ctx context.Context) ([]redisconn.Server, error) {
	all, err := a.scripted.identify(ctx)
	for i := range all {
		all[i].Ahead = a.by
	}
	return all, err
}

var errFound = errors.New("found")

// jumpsAtRandom plays a random order of clock jumps (also between two processes),
// revocations, uses and restarts, with a Redis that is away at times. The clock is never
// ahead for a whole window. It returns how many revocations were tried and how many
// succeeded.
func jumpsAtRandom(t *testing.T, rt *rapid.T, naive bool) (tried, made int, failure error) {
	type event struct{ Kind, Span int }
	events := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event {
		return event{rapid.IntRange(0, 13).Draw(t, "kind"), rapid.IntRange(0, 12).Draw(t, "span")}
	}), 4, 16).Draw(rt, "events")
	jumps(t, naive, func(j *jumping) {
		defer func() { tried, made = j.tried, j.made }()
		tokens := []string{"a", "b", "c"}
		for _, v := range tokens {
			j.mint(v, false)
		}
		wrong, passed := time.Duration(0), time.Duration(0)
		for i, e := range events {
			v, span := tokens[e.Span%3], time.Duration(e.Span)*time.Hour
			if e.Span < 9 { // playing hours is slow
				span = time.Duration(e.Span) * time.Minute
			}
			switch e.Kind {
			case 0, 1:
				j.use(v)
			case 2:
				_ = j.revoke(j.touchApp(), tokens...)
			case 3:
				_ = j.revoke(j.touch(gateway.Consumers, j.owner), tokens...)
			case 4, 5:
				wrong = time.Duration(e.Span-4) * 17 * time.Hour
			case 6:
				wrong, passed = 0, 0
			case 7:
				if passed += span; wrong > 0 && passed > 20*time.Hour {
					wrong, passed = 0, 0
				}
				j.wall.Set(wrong)
				j.rest()
				j.sleep(span)
			case 8:
				j.restart(wrong)
			case 9:
				j.crash()
				j.open(nil)
			case 10:
				j.redis.be([]mood{gone, fine}[e.Span%2])
			case 11, 12, 13:
				wrong = []time.Duration{0, 2 * day, 5 * day}[e.Span%3]
				j.redis.be([]mood{gone, fine}[e.Span%2])
				j.hop(wrong, e.Kind != 13)
			}
			j.wall.Set(wrong)
			j.rest()
			if j.wrong != nil {
				failure = fmt.Errorf("%w, after %v", j.wrong, events[:i+1])
				return
			}
		}
	})
	return tried, made, failure
}

// TestNothingRevivesWhereverTheClockIs: whatever the wall clock of the control plane is set
// to, and when, between revocations, uses, restarts and the passing of hours, no record
// from before a successful revocation is accepted.
func TestNothingRevivesWhereverTheClockIs(t *testing.T) {
	tried, made := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		some, ofThem, failure := jumpsAtRandom(t, rt, false)
		if tried, made = tried+some, made+ofThem; failure != nil {
			rt.Fatal(failure)
		}
	})
	// Redis is in order and no filter is away, wherever the clock is, so revocations must
	// succeed.
	if made == 0 || made < tried*9/10 {
		t.Errorf("%d of %d revocations succeeded: nothing is promised of the others", made, tried)
	}
}

// The property detects a control plane that trusts its clock blindly.
func TestClockTakenAtItsWordIsFound(t *testing.T) {
	gen := rapid.Custom(func(rt *rapid.T) error {
		if _, _, err := jumpsAtRandom(t, rt, true); err != nil {
			return errors.Join(errFound, err)
		}
		return nil
	})
	for i := range 400 {
		if err := gen.Example(i); errors.Is(err, errFound) {
			t.Logf("found in order %d: %v", i, err)
			return
		}
	}
	t.Error("not found")
}

package revoke

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// The tests of this file: a gap between two processes is remembered until its measures are
// in force. A process without Redis does not clear it, however it ends, and neither does
// correcting the clock before the next process starts. Rows that were removed by the wrong
// clock do not come back.

// hop ends the process, in good order or not, and starts another one with another clock.
func (j *jumping) hop(off time.Duration, clean bool) {
	if clean {
		j.restart(off)
		return
	}
	j.crash()
	j.naive(true)
	j.wall.Set(off)
	j.open(nil)
	j.rest()
}

// A revocation that was answered 503 must not become "already gone" for the process after
// the next one, while a filter still accepts the token.
func TestGapIsNotHiddenByTheNextJump(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for _, last := range []time.Duration{0, 2 * day} {
			t.Run(fmt.Sprintf("ends well %v, then %v ahead", clean, last), func(t *testing.T) {
				jumps(t, false, func(j *jumping) {
					j.revokeUnheard()
					j.hop(2*day, true)
					says(j.t, j.r.Settle(j.t.Context()), "node")
					j.hop(last, clean)
					says(j.t, j.r.Settle(j.t.Context()), "node")
					j.hop(0, clean)
					says(j.t, j.r.Settle(j.t.Context()), "node")
					j.redis.be(fine)
					j.rest()
					if err := j.r.Settle(j.t.Context()); err != nil {
						t.Errorf("redis is in order: %v", err)
					}
					j.hop(0, true)
					if err := j.r.Settle(j.t.Context()); err != nil {
						t.Errorf("redis was in order before the restart: %v", err)
					}
				})
			})
		}
	}
}

// A Redis that is in order does not help a filter that still reads the former Redis.
func TestGapLastsWhileAFormerRedisIsBelieved(t *testing.T) {
	for _, last := range []time.Duration{0, 2 * day} {
		t.Run(fmt.Sprintf("then %v ahead", last), func(t *testing.T) {
			jumps(t, false, func(j *jumping) {
				token := j.mint("a", false)
				j.use("a")
				f, _ := j.pipe("node", contract.Hello{Instance: "i"})
				j.rest()
				f.cut()
				j.redis.stand("run-2")
				j.rest()
				says(j.t, j.revoke(j.remove(token)), "node")
				j.restart(2 * day)
				says(j.t, j.r.Settle(j.t.Context()), "node")
				j.restart(last)
				says(j.t, j.r.Settle(j.t.Context()), "node")
				j.pipe("node", contract.Hello{Instance: "i"})
				j.rest()
				if err := j.r.Settle(j.t.Context()); err != nil {
					t.Errorf("it has heard: %v", err)
				}
			})
		})
	}
}

// A revocation that some filter may have missed is confirmed anew, even if no trace of it
// is left.
func TestUntoldServersAreWaitedForWithoutRevocations(t *testing.T) {
	jumps(t, false, func(j *jumping) {
		f, _ := j.pipe("node", contract.Hello{Instance: "i"})
		j.rest()
		f.cut()
		j.redis.stand("run-2")
		j.rest()
		j.restart(0)
		says(j.t, j.r.Settle(j.t.Context()), "node")
	})
}

// The time is stored for as long as records are written, even if the servers are replaced
// after a gap was mended while a filter is away. What the next process knows as the end of
// the last record decides whether it trusts their epoch.
func TestTimeIsNotedAfterAGapWasMended(t *testing.T) {
	jumps(t, false, func(j *jumping) {
		j.mint("a", false)
		j.pipe("node", contract.Hello{Instance: "i"})
		j.rest()
		j.restart(2 * day)
		f, _ := j.pipe("node", contract.Hello{Instance: "i"})
		j.use("a")
		j.rest()
		noted := func() (last Times) {
			if err := j.r.noteTimes(j.t.Context()); err != nil {
				j.t.Fatal(err)
			}
			if err := j.r.o.Store.View(j.t.Context(), func(r store.Reader) (err error) {
				last, _, err = resumeTime(r, j.r.o.Clock)
				return err
			}); err != nil {
				j.t.Fatal(err)
			}
			return last
		}
		before := noted()
		if before.Unmended {
			j.t.Fatal("the gap is not mended")
		}
		f.cut()
		j.redis.stand("run-2")
		j.rest()
		time.Sleep(time.Hour)
		if after := noted(); after.Earliest <= before.Earliest {
			t.Errorf("an hour later the time is %d, it was %d", after.Earliest, before.Earliest)
		}
	})
}

package revoke

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/steady/steadytest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// jumping is a world whose wall clock the test sets. A token that was revoked there with
// success must not be accepted by a filter that reads Redis with a correct clock and knows
// nothing else.
type jumping struct {
	*world
	redis *scripted
	// trusts are all trusts that filters were ever told.
	trusts []contract.Trust
	// sure is the revision of the newest successful revocation of each token.
	sure map[string]uint64
	// unwritten is a revocation that Redis may not hold yet. Without known filters it
	// succeeds at once: nobody then believes a trust from before it.
	unwritten *unwritten
	// wrong reports the first token that was accepted because of an old record.
	wrong error
	// tried counts revocations. made counts those that succeeded. Nothing is promised of
	// the others, so they cannot reveal a defect.
	tried, made int
}

// unwritten says where in whose log a revocation is.
type unwritten struct {
	by *Revoker
	at contract.Position
}

// write notes what Redis holds by now. mu of the process is held.
func (j *jumping) write() {
	u := j.unwritten
	if u == nil {
		return
	}
	// The next process announces a trust when Redis is in order.
	if j.r == u.by && j.r.redisAt >= u.at || j.r != u.by && j.r.trust.Epoch != 0 {
		j.unwritten = nil
	}
}

func jumps(t *testing.T, naive bool, fn func(j *jumping)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		redis := newScripted("run-1")
		j := &jumping{
			world: &world{t: t, virtual: true, remote: redis, wall: &steadytest.Hand{AtItsWord: naive}}, redis: redis, sure: map[string]uint64{},
		}
		j.init(nil)
		j.source.owner = j.owner
		j.rest()
		fn(j)
	})
}

// naive makes a process that trusts its clock blindly forget everything else that could
// reveal a wrong clock: when its records end, and, between two processes, what the time
// was.
func (j *jumping) naive(between bool) {
	if !j.wall.AtItsWord {
		return
	}
	j.r.keeper.mu.Lock()
	j.r.keeper.last = 0
	j.r.keeper.mu.Unlock()
	if !between {
		return
	}
	_, err := j.store.Update(context.Background(), model.Credential, func(tx store.Tx) error {
		return tx.Delete(times, "", singleton, 0)
	})
	if err != nil && !fault.Is(err, fault.NotFound) {
		j.t.Error(err)
	}
}

// rest lets everything in progress end.
func (j *jumping) rest() {
	for range 3 {
		time.Sleep(watchEvery)
		synctest.Wait()
		j.naive(false)
		j.r.mu.Lock()
		j.trusts = append(j.trusts[max(0, len(j.trusts)-8):], j.r.trust)
		j.write()
		j.r.mu.Unlock()
		j.wrong = cmp.Or(j.wrong, j.accepted())
	}
}

// use puts the record of a token into Redis, with the floors of its owners.
func (j *jumping) use(value string) {
	j.r.Refill(scope, contract.HashToken([]byte(value)))
	j.rest()
}

func (j *jumping) revoke(how func(store.Tx) error, values ...string) error {
	j.tried++
	publish, abandon := j.r.Begin()
	c, err := j.commit(how)
	if err != nil {
		abandon()
		return err
	}
	if err := publish(context.Background(), c); err != nil {
		return err
	}
	j.made++
	for _, v := range values {
		j.sure[v] = c.Revision
	}
	j.r.mu.Lock()
	j.unwritten = &unwritten{j.r, j.r.history.at}
	j.r.mu.Unlock()
	j.rest()
	return nil
}

func (j *jumping) touchApp() func(store.Tx) error { return j.touch(gateway.Applications, j.app) }

// restart ends the process in good order and starts another one.
func (j *jumping) restart(off time.Duration) {
	j.close(j.r)
	j.naive(true)
	j.wall.Set(off)
	j.open(nil)
	j.rest()
}

// believed returns what filters may believe: whatever they were told, and until Redis holds
// the newest revocation, what they were told after it.
func (j *jumping) believed() []contract.Trust {
	j.r.mu.Lock()
	defer j.r.mu.Unlock()
	switch u := j.unwritten; {
	case u == nil:
		return j.trusts
	case j.r == u.by && j.r.trustAt <= u.at:
		return nil
	}
	return []contract.Trust{j.r.trust}
}

// accepted returns an error if a token is accepted because of an old record.
func (j *jumping) accepted() error {
	for v, revision := range j.sure {
		for _, trust := range j.believed() {
			m := newModelFilter("late", j.redis)
			m.trust, m.seen = trust, time.Now()
			if r := m.check(contract.HashToken([]byte(v)), false); r != nil && r.Revision < revision {
				return fmt.Errorf("%s is accepted by a record of revision %d, epoch %d, until %v from now; it was revoked at %d",
					v, r.Revision, r.Epoch, time.Until(time.UnixMilli(r.Until)), revision)
			}
		}
	}
	return nil
}

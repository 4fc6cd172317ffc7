package revoke

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// A filter's confirmation of its memory and of its disk are separate. A disk that stalls
// fails no revocation that Redis holds, and a resumed link does not replace the
// confirmation of the disk.
func TestMemoryAndDiskAreConfirmedApart(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		first, second := w.mint("a", false), w.mint("b", false)
		w.settles(t)
		f, wel := w.pipe("node", contract.Hello{Instance: "i"})
		f.lease()
		say := func(applied, durable contract.Position) {
			t.Helper()
			f.send(contract.FrameAck, contract.Ack{Applied: applied, Durable: durable}.Encode())
		}
		done := async(func() error { return w.delete(first) })
		stillWaits(t, "revoking", done)
		say(f.invalidated().To, 0)
		if d, err := took(t, done); err != nil || d > time.Second {
			t.Errorf("in Redis and in memory: %v after %v", err, d)
		}
		redis.be(gone)
		done = async(func() error { return w.delete(second) })
		m, change := f.invalidated(), f.trusted()
		say(change.At, m.To)
		stillWaits(t, "revoking", done)
		f.cut()
		f, again := w.pipe("node", contract.Hello{Instance: "i", Log: wel.Log, Applied: change.At})
		if again.From != change.At {
			t.Fatalf("%+v", again)
		}
		stillWaits(t, "revoking", done)
		f.ack(change.At)
		if d, err := took(t, done); err != nil || d > patience {
			t.Errorf("on its disk: %v after %v", err, d)
		}
	})
}

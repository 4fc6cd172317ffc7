package revoke

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/filter/contract"
)

// measured is one entry of a ledger.
type measured struct {
	What string
	Took time.Duration
}

// ledger is a Meter that keeps its entries.
type ledger chan measured

func (l ledger) Introspected(result string, took time.Duration) { l <- measured{result, took} }

func (l ledger) Revoked(took time.Duration, confirmed bool) {
	if confirmed {
		l <- measured{"confirmed", took}
	} else {
		l <- measured{"unconfirmed", took}
	}
}

// TestMeter: the meter gets the result of each question, and each revocation once, with the
// time that it took.
func TestMeter(t *testing.T) {
	t.Parallel()
	var told ledger
	aloneWith(t, func(o *Options) { told = make(ledger, 10); o.Meter = told }, func(t *testing.T, w *world) {
		expect := func(want ...measured) {
			t.Helper()
			synctest.Wait()
			var got []measured
			for len(told) > 0 {
				got = append(got, <-told)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		}
		name := w.mint("a", false)
		f, _ := w.connect("i")
		f.lease()
		const read, applied = 10 * time.Millisecond, 20 * time.Millisecond
		w.source.be(func(context.Context) error { time.Sleep(read); return nil })
		for _, q := range []struct {
			token, plugin string
			want          measured
		}{
			{"a", "plugin", measured{IntrospectionFound, read}}, {"x", "plugin", measured{IntrospectionUnknown, read}},
			{"a", "other", measured{IntrospectionRefused, 0}},
		} {
			f.send(contract.FrameIntrospect, (&contract.Introspect{ID: 7, Token: contract.HashToken([]byte(q.token)), Plugin: q.plugin}).Encode())
			f.expect(contract.FrameResult)
			expect(q.want)
		}
		done := async(func() error { return w.delete(name) })
		m := f.invalidated()
		time.Sleep(applied)
		f.ack(m.To)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		expect(measured{"confirmed", applied})
	})
}

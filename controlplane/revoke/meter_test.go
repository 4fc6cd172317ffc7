package revoke

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// ledger is a Meter whose entries the test can wait for.
type ledger chan string

func (l ledger) Introspected(result string, took time.Duration) {
	if took > 0 {
		l <- result
	}
}

func (l ledger) Revoked(took time.Duration, confirmed bool) {
	switch {
	case took <= 0:
	case confirmed:
		l <- "confirmed"
	default:
		l <- "unconfirmed"
	}
}

// TestMeter: the meter gets the result of each question, and each revocation once.
func TestMeter(t *testing.T) {
	t.Parallel()
	told := make(ledger, 10)
	w := &world{t: t, tweak: func(o *Options) { o.Meter = told }}
	w.init(nil)
	name := w.mint("a", false)
	f, _ := w.connect("i")
	f.lease()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-told:
			if got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("nothing told, want %q", want)
		}
	}
	for _, q := range []struct{ token, plugin, want string }{
		{"a", "plugin", IntrospectionFound}, {"x", "plugin", IntrospectionUnknown}, {"a", "other", IntrospectionRefused},
	} {
		f.send(contract.FrameIntrospect, (&contract.Introspect{ID: 7, Token: contract.HashToken([]byte(q.token)), Plugin: q.plugin}).Encode())
		f.expect(contract.FrameResult)
		expect(q.want)
	}
	done := async(func() error { return w.delete(name) })
	f.ack(f.invalidated().To)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	expect("confirmed")
	if len(told) != 0 {
		t.Errorf("told %q besides", <-told)
	}
}

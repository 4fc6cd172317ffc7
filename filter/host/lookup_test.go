package host

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host/hosttest"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// TestLookupsAreGivenUp: a look-up that nobody waits for any more ends at once and only
// once, and the token cache is told.
func TestLookupsAreGivenUp(t *testing.T) {
	f := newFixture(t)
	var answer func(contract.Answer, []byte)
	left := 0
	f.tokens.Resolve = func(done func(contract.Answer, []byte)) { answer = done }
	f.tokens.GivenUp = func() {
		left++
		answer(contract.Unavailable, nil)
	}
	ended := make(chan end, 4)
	finish := func(a contract.Answer, p []byte) { ended <- end{a, string(p)} }
	h := f.Resolve(f.source, tokencache.Asker{}, contract.Hash{}, "p", time.Hour, finish)
	f.GiveUp(h)
	f.GiveUp(h)
	f.GiveUp(0)
	answer(contract.Found, []byte("x"))
	if got := <-ended; got != (end{contract.Unavailable, ""}) || left != 1 || len(ended) != 0 {
		t.Errorf("ended with %+v, the token cache heard %d times, %d more ends", got, left, len(ended))
	}

	h = f.Resolve(f.source, tokencache.Asker{}, contract.Hash{}, "p", time.Hour, finish)
	answer(contract.Found, []byte("y"))
	f.GiveUp(h)
	if got := <-ended; got != (end{contract.Found, "y"}) || left != 1 || len(ended) != 0 {
		t.Errorf("an answered look-up ended with %+v, the token cache heard %d times", got, left)
	}

	f.GiveUp(f.Await(time.Hour, finish))
	if got := <-ended; got.answer != contract.Unavailable {
		t.Errorf("a deadline ended with %+v", got)
	}
	if f.pendings.next > 1 || len(f.pendings.free) != 1 {
		t.Errorf("%d handles for one at a time, %d of them free", f.pendings.next, len(f.pendings.free))
	}
}

// TestLookupsOutliveTheirListener: a listener goes during a look-up of its stream, and
// another takes its place. The look-up ends once, and its handle leads to nothing else.
func TestLookupsOutliveTheirListener(t *testing.T) {
	f := newFixture(t)
	var answer func(contract.Answer, []byte)
	f.tokens.Resolve = func(done func(contract.Answer, []byte)) { answer = done }
	ended := make(chan end, 3)
	finish := func(a contract.Answer, p []byte) { ended <- end{a, string(p)} }
	f.Resolve(f.source, tokencache.Asker{}, contract.Hash{}, "p", time.Hour, finish)

	f.ReleaseSource(f.source)
	<-f.tokens.Closed
	f.Wait()
	next := hosttest.NewTokens("other")
	next.Resolve = func(func(contract.Answer, []byte)) { t.Error("somebody else was asked") }
	f.open = func(*Host, *contract.Settings, string) (Tokens, error) { return next, nil }
	if h, _, err := f.AcquireSource([]byte(`{"settings":{"redis":{"url":"redis://a"},"cache":{}}}`)); err != nil || h == f.source {
		t.Fatalf("handle %#x again (%v)", h, err)
	}

	answer(contract.Found, []byte("x"))
	answer(contract.Found, []byte("again"))
	if got := <-ended; got != (end{contract.Found, "x"}) {
		t.Errorf("the look-up ended with %+v", got)
	}
	f.Resolve(f.source, tokencache.Asker{}, contract.Hash{}, "p", time.Hour, finish)
	if got := <-ended; got.answer != contract.Unavailable {
		t.Errorf("a handle of a listener that has gone: %+v", got)
	}
	if len(ended) != 0 {
		t.Error("ended twice")
	}
	if v := f.Decide(f.source, f.route, &engine.Request{}, nil, make([]byte, engine.BufferSize)); v.Action != engine.Refuse || v.Refusal != nil {
		t.Errorf("a decision for a listener that has gone: %+v", v)
	}
}

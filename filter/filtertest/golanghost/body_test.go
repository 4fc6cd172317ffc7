package golanghost

import (
	"net/http"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/engine"
)

// either looks a key up that is in a header, and reads the body of whoever has shown a bad one.
const either = `{"route":"r","service":"s","plugins":[` +
	`{"id":"k","key_auth":{"names":["apikey"],"in_header":true,"anonymous":{"configured":"nobody","consumer":{"id":"nobody"}}}},` +
	`{"id":"p","oauth2":{"header":"authorization","in_body":true,"hide_credentials":true}}]}`

// form is a body of so many bytes with the token "good" in it.
func form(size int) string {
	token := "access_token=good&x="
	return token + strings.Repeat("a", size-len(token))
}

// There is no credential in a body that is longer than a decision reads. One that is as long
// is read although Envoy's buffers hold less, and goes on as a whole.
func TestLongBodies(t *testing.T) { both(t, testLongBodies) }

func testLongBodies(t *testing.T, way way) {
	f := newFixture(t, way)
	at := f.merge(f.listener, f.config(true, `{"chain":`+chain+`}`))
	for _, size := range []int{20, 1 << 14, 1<<14 + 1, 1 << 16, engine.MaxBody} {
		for _, trailers := range [][][2]string{nil, {{"x-other", "1"}}} {
			o := f.run(post(at, form(size), trailers...))
			f.passes(o)
			if want := strings.TrimPrefix(form(size), "access_token=good&"); o.Sent != want {
				t.Errorf("%d bytes, trailers %v: %d bytes went on, want %d", size, trailers, len(o.Sent), len(want))
			}
		}
	}
	for _, size := range []int{engine.MaxBody + 1, 2 * engine.MaxBody} {
		f.refused(f.run(post(at, form(size))), http.StatusUnauthorized)
	}
}

// A body that passes the limit of Envoy's buffers while a key is looked up is read when the
// answer wants it, also if trailers have come by then.
func TestBodiesAfterLookups(t *testing.T) { both(t, testBodiesAfterLookups) }

func testBodiesAfterLookups(t *testing.T, way way) {
	f := newFixture(t, way)
	at := f.merge(f.listener, f.config(true, `{"chain":`+either+`}`))
	for _, size := range []int{20, 1 << 14, 1<<14 + 1, 1 << 15, 1 << 16, engine.MaxBody} {
		for _, trailers := range [][][2]string{nil, {{"x-other", "1"}}} {
			f.redis.Freeze(t)
			a := post(at, form(size), trailers...)
			a.headers = append(a.headers, [2]string{"apikey", "bad"})
			if !f.begin(0, a) {
				t.Fatal("it is decided without a look-up")
			}
			f.redis.Thaw(t)
			o := f.finish(0)
			f.passes(o)
			if want := strings.TrimPrefix(form(size), "access_token=good&"); o.Sent != want {
				t.Errorf("%d bytes, trailers %v: %d bytes went on, want %d", size, trailers, len(o.Sent), len(want))
			}
		}
	}
}

// The bodies that a connection has held back have a budget. What is over it is refused, and
// who ends makes room.
func TestBodiesHaveABudget(t *testing.T) { both(t, testBodiesHaveABudget) }

func testBodiesHaveABudget(t *testing.T, way way) {
	f := newFixture(t, way)
	at := f.merge(f.listener, f.config(true, `{"chain":`+chain+`}`))
	hold := func(n, connection int) bool {
		a := post(at, strings.Repeat("a", engine.MaxBody))
		a.open, a.connection = true, connection
		return f.begin(n, a)
	}
	for n := range 8 {
		if !hold(n+1, 1) { // run has the number 0
			t.Fatalf("body %d is not waited for: %+v", n, f.finish(n+1))
		}
	}
	over := post(at, form(20))
	over.connection = 1
	o := f.run(over)
	f.refused(o, http.StatusServiceUnavailable)
	if o.Header.Get("retry-after") != "1" || !strings.Contains(o.Body, "cannot be held") {
		t.Errorf("want the refusal for the budget: %+v", o)
	}
	f.passes(f.run(post(at, form(20)))) // of another connection
	f.say("cancel 8")
	f.passes(f.run(over))
	for n := 1; n < 8; n++ {
		f.say("cancel %d", n)
	}
}

package attacker_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
)

// mark is the header that says which request of which attack this is.
const mark = "X-Attack"

// sent remembers what was sent under a mark, for as long as the run lasts:
// something may arrive late.
var sent sync.Map // string -> expectation

// expectation is what the oracle knows of a request.
type expectation struct {
	placed []placement
	// secret, unless empty, is a token that must not arrive in a header.
	secret string
}

// upstream judges what arrives.
type upstream struct {
	*httptest.Server
	target *target

	mu       sync.Mutex
	requests int
	wrong    []string
}

func startUpstream(t *target) *upstream {
	u := &upstream{target: t}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a client may break off
		u.receive(r)
		_, _ = io.WriteString(w, "reached "+t.name)
	}))
	DeferCleanup(u.Close)
	return u
}

func (u *upstream) port() int { return u.Listener.Addr().(*net.TCPAddr).Port }

// receive judges one request. One without a mark is one that nobody sent: it has
// no credential.
func (u *upstream) receive(r *http.Request) {
	// A folded line that follows the mark becomes part of it.
	id, _, _ := strings.Cut(r.Header.Get(mark), " ")
	known, _ := sent.Load(id)
	e, _ := known.(expectation)
	problem := judge(u.target, e.placed, r.Header)
	if problem == "" && u.target.hides && e.secret != "" && strings.Contains(strings.Join(r.Header.Values(u.target.tokenHeader()), ","), e.secret) {
		problem = "the credential arrived"
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests++
	if problem != "" {
		u.wrong = append(u.wrong, fmt.Sprintf("attack %s at the upstream of %s: %s %s %s %v: %s",
			r.Header.Get(mark), u.target.name, r.Method, r.RequestURI, r.Proto, r.Header, problem))
	}
}

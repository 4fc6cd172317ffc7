package extauthz

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host/hosttest"
)

// TestChainsThatCannotBeHonoured: a route refuses every request if its chain is missing,
// broken, or one that an authorization service cannot carry out. The log says why, once.
func TestChainsThatCannotBeHonoured(t *testing.T) {
	for _, tc := range []struct {
		name, chain, bodies, logged string
		status                      int
	}{
		{"plain", plain, "", "", 0},
		{"missing", "", "", contract.AuthzChain, 503},
		{"broken", "{", "", "decode chain", 503},
		{"too long", plain + strings.Repeat(" ", contract.MaxChain), "", "longer", 503},
		{"looks into bodies that are not sent", strings.Replace(plain, `"authorization"`, `"authorization","in_body":true`, 1), "", contract.AuthzBody, 503},
		{"looks into bodies that are sent", strings.Replace(plain, `"authorization"`, `"authorization","in_body":true`, 1), "true", "", 0},
		{"issues without a route for that", strings.Replace(plain, `"service":"s"`, `"service":"s","issues":true`, 1), "", contract.AuthzIssue, 503},
		{"hides in bodies", strings.Replace(plain, `"authorization"`, `"authorization","in_body":true,"hide_credentials":true`, 1), "true", "hides credentials", 503},
		{"hides a key in bodies", `{"route":"r","service":"s","plugins":[{"id":"p","key_auth":{"names":["k"],"in_body":true,"hide_credentials":true}}]}`, "true", "hides credentials", 503},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := &hosttest.Log{}
			s := newServer(t, log, hosttest.NewTokens("good"))
			q := request(tc.chain, ":path", "/", ":method", "GET", "authorization", "Bearer good")
			q.Attributes.ContextExtensions[contract.AuthzBody] = tc.bodies
			for range 2 {
				if got := statusOf(t, s, q); got != tc.status {
					t.Errorf("status %d, want %d", got, tc.status)
				}
			}
			if lines := strings.Count(log.Text(), "unusable"); (tc.logged != "") != (lines == 1) || !strings.Contains(log.Text(), tc.logged) {
				t.Errorf("log: %s", log.Text())
			}
		})
	}
}

// TestChainsMakeRoom: chains that are no longer used make room, and a chain in use is
// compiled once.
func TestChainsMakeRoom(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	used := s.chains.get(map[string]string{contract.AuthzChain: plain})
	for i := range maxChains + 10 {
		s.chains.get(map[string]string{contract.AuthzChain: strings.Replace(plain, `"r"`, fmt.Sprintf(`"r%d"`, i), 1)})
		if s.chains.get(map[string]string{contract.AuthzChain: plain}) != used {
			t.Fatalf("compiled again after %d others", i)
		}
	}
	if n := len(s.chains.of); n > maxChains {
		t.Errorf("%d chains are kept", n)
	}
}

// of returns the context extensions of a route with a chain.
func of(chain string) map[string]string { return map[string]string{contract.AuthzChain: chain} }

// TestChainsAreBoundedInBytes: long chains make room sooner than short ones, and those that are
// too long are not kept at all. A chain in use is compiled once even so.
func TestChainsAreBoundedInBytes(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	used := s.chains.get(of(plain))
	long := strings.Repeat(" ", contract.MaxChain-200)
	most := maxChainBytes / chainKey{text: long}.size()
	for i := range 2 * most {
		s.chains.get(of(strings.Replace(plain, `"r"`, fmt.Sprintf(`"r%d"`, i), 1) + long))
		if s.chains.get(of(plain)) != used {
			t.Fatalf("compiled again after %d others", i)
		}
	}
	kept := 0
	for key := range s.chains.of {
		kept += key.size()
	}
	if kept > maxChainBytes || kept != s.chains.bytes {
		t.Errorf("chains of %d bytes are kept, and counted as %d", kept, s.chains.bytes)
	}
	before := len(s.chains.of)
	for i := range 100 {
		s.chains.get(of(fmt.Sprintf("%d", i) + long + strings.Repeat(" ", 200)))
	}
	if n := len(s.chains.of) - before; n > 1 {
		t.Errorf("%d chains that are too long are kept", n)
	}
	s.chains.mu.Lock()
	s.chains.clear()
	s.chains.mu.Unlock()
	if s.chains.bytes != 0 || len(s.chains.of) != 0 {
		t.Errorf("%d bytes of %d chains are left", s.chains.bytes, len(s.chains.of))
	}
}

// TestDecisionsDoNotWaitForChains: while a chain is compiled, those that are known go on, and
// everybody who needs the new one waits for the same program. It is not forgotten meanwhile.
func TestDecisionsDoNotWaitForChains(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	known := s.chains.get(of(plain))
	other := strings.Replace(plain, `"r"`, `"other"`, 1)
	compile, begun, end := s.chains.acquire, make(chan struct{}), make(chan struct{})
	var times atomic.Int32
	s.chains.acquire = func(text []byte) (uint32, *engine.Program, error) {
		if times.Add(1) == 1 {
			close(begun)
		}
		<-end
		return compile(text)
	}
	var wg sync.WaitGroup
	var got [3]*engine.Program
	ask := func(i int) { wg.Go(func() { got[i] = s.chains.get(of(other)) }) }
	ask(0)
	<-begun
	ask(1)
	ask(2)
	if s.chains.get(of(plain)) != known {
		t.Error("the known chain is another one")
	}
	s.chains.mu.Lock()
	s.chains.clear()
	s.chains.mu.Unlock()
	close(end)
	wg.Wait()
	if times.Load() != 1 || got[0] == nil || got[1] != got[0] || got[2] != got[0] {
		t.Errorf("compiled %d times: %v", times.Load(), got)
	}
}

// TestChainThatCannotBeCompiled: after a panic the chain refuses, and nobody waits for ever.
func TestChainThatCannotBeCompiled(t *testing.T) {
	log := &hosttest.Log{}
	s := newServer(t, log, hosttest.NewTokens("good"))
	s.chains.acquire = func([]byte) (uint32, *engine.Program, error) { panic("injected") }
	q := request(plain, ":path", "/", "authorization", "Bearer good")
	for range 2 {
		if got := statusOf(t, s, q); got != 503 {
			t.Errorf("status %d", got)
		}
	}
	if n := strings.Count(log.Text(), "injected"); n != 1 {
		t.Errorf("%d faults are logged: %s", n, log.Text())
	}
}

// TestSizesOfChains: chains occupy no more than they count for, whatever is in them.
func TestSizesOfChains(t *testing.T) {
	consumers := func(i int) string { // what makes most of its text
		var b strings.Builder
		fmt.Fprintf(&b, `{"route":"r%d","service":"s","plugins":[{"id":"p","oauth2":{"header":"a"}},{"id":"t","termination":{"consumers":{`, i)
		for j := range 5000 {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"%d":{"status":404}`, j)
		}
		return b.String() + "}}}]}"
	}
	for name, chain := range map[string]func(i int) string{
		"one plugin": func(i int) string { return strings.Replace(plain, `"r"`, fmt.Sprintf(`"r%d"`, i), 1) },
		"consumers":  consumers,
		"broken":     func(i int) string { return fmt.Sprintf("%d", i) + strings.Repeat("x", contract.MaxChain-10) },
	} {
		s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
		before := heap()
		for i := range 20 {
			if p := s.chains.get(of(chain(i))); (p.Fault() != "") != (name == "broken") {
				t.Fatalf("%s: %s", name, p.Fault())
			}
		}
		if now := heap(); now > before+uint64(s.chains.bytes) {
			t.Errorf("%s: %d bytes count as %d", name, now-before, s.chains.bytes)
		} else {
			t.Logf("%s: %d bytes count as %d", name, int64(now)-int64(before), s.chains.bytes)
		}
		runtime.KeepAlive(s)
	}
}

// heap returns the bytes in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

package extauthz

import (
	"errors"
	"sync"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host"
)

// Bounds of the compiled chains. Envoy's configuration has one for each route. Chains of removed
// routes make room for others.
const (
	maxChains = 32 << 10
	// maxChainBytes bounds the memory of all of them, see [chainKey.size].
	maxChainBytes = 256 << 20
)

var (
	errNoChain   = errors.New("the route has no context extension " + contract.AuthzChain)
	errLongChain = errors.New("the chain is longer than a chain may be")
	errNoIssuer  = errors.New("the chain issues tokens, and the route does not say that there is a route to the OAuth server: set the context extension " + contract.AuthzIssue)
	errNoBodies  = errors.New("the chain looks for credentials in bodies, and the route does not send any: set with_request_body and the context extension " + contract.AuthzBody)
)

// chain is the compiled chain of a route.
type chain struct {
	// made is closed when program and handle are there. They do not change afterwards.
	made    chan struct{}
	program *engine.Program
	handle  uint32 // 0 for a chain that is refused here
	size    int    // see chainKey.size
	used    bool   // used again since it was made or since the last sweep; guarded by chains.mu
}

// ready reports whether the chain is compiled.
func (k *chain) ready() bool {
	select {
	case <-k.made:
		return true
	default:
		return false
	}
}

// chainKey identifies chains by their content.
type chainKey struct {
	text           string
	bodies, issues bool
	// long stands for all chains that are longer than a chain may be. They are not kept.
	long bool
}

// keyOf returns the key of the chain in the context extensions of a route.
func keyOf(extensions map[string]string) chainKey {
	text := extensions[contract.AuthzChain]
	if len(text) > contract.MaxChain {
		return chainKey{long: true}
	}
	return chainKey{text: text, bodies: extensions[contract.AuthzBody] == contract.AuthzTrue, issues: extensions[contract.AuthzIssue] == contract.AuthzTrue}
}

// size estimates the memory of a chain in bytes: its text, and a program of many small plugins.
func (k chainKey) size() int { return chainSize + chainFactor*len(k.text) }

// A test holds these against what chains occupy.
const (
	chainSize   = 3 << 10
	chainFactor = 16
)

// acquire compiles a chain, see [host.Host.AcquireProgram].
type acquire func(chain []byte) (handle uint32, p *engine.Program, err error)

// chains keeps the programs of the chains in use.
type chains struct {
	host    *host.Host
	acquire acquire
	mu      sync.Mutex          // is not held while a chain is compiled: every decision needs it
	of      map[chainKey]*chain // guarded by mu
	bytes   int                 // sizes of those in of; guarded by mu
}

func newChains(h *host.Host) *chains {
	return &chains{host: h, acquire: h.AcquireProgram, of: map[chainKey]*chain{}}
}

// get returns the program of a chain. A chain that cannot be honoured gets a program that
// refuses, and is logged when it is first met. Requests that come while their chain is compiled
// wait for that.
func (c *chains) get(extensions map[string]string) *engine.Program {
	key := keyOf(extensions)
	known, first := c.find(key)
	if first {
		c.compile(key, known)
	}
	<-known.made
	return known.program
}

// find returns the place of a chain. first says that the caller must compile it.
func (c *chains) find(key chainKey) (known *chain, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known = c.of[key]; known != nil {
		known.used = true
		return known, false
	}
	known = &chain{made: make(chan struct{}), size: key.size()}
	c.makeRoom(known.size)
	c.of[key] = known
	c.bytes += known.size
	return known, true
}

// compile makes a program. A program outlives its handle, so a request in progress may
// continue with a program that was swept.
func (c *chains) compile(key chainKey, into *chain) {
	defer close(into.made)
	into.program = engine.Broken("the chain could not be compiled") // unless there is no panic
	err := key.honoured()
	if err == nil {
		var handle uint32
		var program *engine.Program
		if handle, program, err = c.acquire([]byte(key.text)); err == nil {
			into.handle, into.program = handle, program
			return
		}
	}
	c.host.Log().Error("chain of a route is unusable, its requests are refused", "error", err)
	into.program = engine.Broken(err.Error())
}

// honoured returns the reason why the service cannot carry out a chain, or nil. It returns nil
// for a chain that does not parse, because the engine refuses such a chain.
func (k chainKey) honoured() error {
	switch {
	case k.long:
		return errLongChain
	case k.text == "":
		return errNoChain
	}
	parsed, err := contract.ParseChain([]byte(k.text))
	if err != nil {
		return nil
	}
	switch {
	case parsed.Issues && !k.issues:
		return errNoIssuer // otherwise a workload would get the request without a check by its plugins
	case parsed.ReadsBodies() && !k.bodies:
		return errNoBodies
	}
	return contract.ModeExtAuthz.Honours(parsed)
}

// makeRoom forgets chains until there is room for one more of a size: those that were not used
// again, and if that is not enough, all.
func (c *chains) makeRoom(size int) {
	full := func() bool { return len(c.of) >= maxChains || c.bytes+size > maxChainBytes }
	if !full() {
		return
	}
	for key, known := range c.of {
		if known.used {
			known.used = false
			continue
		}
		c.drop(key, known)
	}
	if full() {
		c.clear()
	}
}

// drop forgets a chain. One that is being compiled stays: whoever compiles it has it in a
// request, and the requests in progress are bounded.
func (c *chains) drop(key chainKey, known *chain) {
	if !known.ready() {
		return
	}
	delete(c.of, key)
	c.bytes -= known.size
	c.host.ReleaseProgram(known.handle)
}

func (c *chains) clear() {
	for key, known := range c.of {
		c.drop(key, known)
	}
}

// close forgets all chains. No call may be in progress.
func (c *chains) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
}

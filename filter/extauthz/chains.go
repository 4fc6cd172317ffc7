package extauthz

import (
	"errors"
	"sync"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host"
)

// maxChains bounds the compiled chains. Envoy's configuration has one for each route. Chains
// of removed routes make room for others.
const maxChains = 32 << 10

var (
	errNoChain   = errors.New("the route has no context extension " + contract.AuthzChain)
	errLongChain = errors.New("the chain is longer than a chain may be")
	errNoIssuer  = errors.New("the chain issues tokens, and the route does not say that there is a route to the OAuth server: set the context extension " + contract.AuthzIssue)
	errNoBodies  = errors.New("the chain looks for credentials in bodies, and the route does not send any: set with_request_body and the context extension " + contract.AuthzBody)
)

// chain is the compiled chain of a route.
type chain struct {
	program *engine.Program
	handle  uint32 // 0 for a chain that is refused here
	used    bool   // used again since it was made or since the last sweep; guarded by chains.mu
}

// chainKey identifies chains by their content.
type chainKey struct {
	text           string
	bodies, issues bool
}

// chains keeps the programs of the chains in use.
type chains struct {
	host *host.Host
	mu   sync.Mutex
	of   map[chainKey]*chain // guarded by mu
}

// get returns the program of a chain. A chain that cannot be honoured gets a program that
// refuses, and is logged when it is first met.
func (c *chains) get(extensions map[string]string) *engine.Program {
	key := chainKey{extensions[contract.AuthzChain], extensions[contract.AuthzBody] == contract.AuthzTrue, extensions[contract.AuthzIssue] == contract.AuthzTrue}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.of[key]; known != nil {
		known.used = true
		return known.program
	}
	if len(c.of) >= maxChains {
		c.sweep()
	}
	made := c.compile(key)
	c.of[key] = made
	return made.program
}

// compile makes a program. A program outlives its handle, so a request in progress may
// continue with a program that was swept.
func (c *chains) compile(key chainKey) *chain {
	if err := key.honoured(); err != nil {
		c.host.Log().Error("chain of a route is unusable, its requests are refused", "error", err)
		return &chain{program: engine.Broken(err.Error())}
	}
	handle, program, err := c.host.AcquireProgram([]byte(key.text))
	if err != nil {
		c.host.Log().Error("chain of a route is unusable, its requests are refused", "error", err)
		return &chain{program: engine.Broken(err.Error())}
	}
	return &chain{program: program, handle: handle}
}

// honoured returns the reason why the service cannot carry out a chain, or nil. It returns nil
// for a chain that does not parse, because the engine refuses such a chain.
func (k chainKey) honoured() error {
	switch {
	case k.text == "":
		return errNoChain
	case len(k.text) > contract.MaxChain:
		return errLongChain
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

// sweep forgets the chains that were not used again, or all chains if every one was.
func (c *chains) sweep() {
	before := len(c.of)
	for key, known := range c.of {
		if known.used {
			known.used = false
			continue
		}
		c.drop(key, known)
	}
	if len(c.of) < before {
		return
	}
	c.clear()
}

func (c *chains) drop(key chainKey, known *chain) {
	delete(c.of, key)
	c.host.ReleaseProgram(known.handle)
}

func (c *chains) clear() {
	for key, known := range c.of {
		c.drop(key, known)
	}
}

// close forgets all chains.
func (c *chains) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
}

package extauthz

import (
	"errors"
	"sync"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host"
)

// Context extensions of a route, by which Envoy says what applies to a request.
const (
	// ChainExtension is the encoded chain ([contract.Chain]).
	ChainExtension = "meshgate.chain"
	// BodyExtension is "true" where Envoy sends bodies.
	BodyExtension = "meshgate.body"
	// IssueExtension is "true" where the virtual host has a route to the OAuth server for
	// requests with contract.HeaderOAuthPlugin, and Envoy routes anew. The service cannot
	// see that.
	IssueExtension = "meshgate.issue"
)

// maxChains bounds the chains that are kept compiled. Envoy's configuration has one for
// each route. Chains of routes that are gone make room.
const maxChains = 32 << 10

var (
	errNoChain   = errors.New("the route has no context extension " + ChainExtension)
	errLongChain = errors.New("the chain is longer than a chain may be")
	errHides     = errors.New("the chain hides credentials in bodies, which an authorization service cannot do")
	errNoIssuer  = errors.New("the chain issues tokens, and the route does not say that there is a route to the OAuth server: set the context extension " + IssueExtension)
	errNoBodies  = errors.New("the chain looks for credentials in bodies, and the route does not send any: set with_request_body and the context extension " + BodyExtension)
)

// chain is what applies to a route, compiled.
type chain struct {
	program *engine.Program
	handle  uint32 // 0 for one that is refused here
	used    bool   // again, since it was made or the last sweep; guarded by chains.mu
}

// chainKey tells chains apart by their content.
type chainKey struct {
	text           string
	bodies, issues bool
}

// chains keeps programs of the chains that are in use.
type chains struct {
	host *host.Host
	mu   sync.Mutex
	of   map[chainKey]*chain // guarded by mu
}

// get returns the program of a chain. One that cannot be honoured is a program that
// refuses, and is logged when it is first met.
func (c *chains) get(extensions map[string]string) *engine.Program {
	key := chainKey{extensions[ChainExtension], extensions[BodyExtension] == "true", extensions[IssueExtension] == "true"}
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

// compile makes a program. A program outlives its handle, so a request that is under way
// may go on with one that is swept.
func (c *chains) compile(key chainKey) *chain {
	if err := honoured(key); err != nil {
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

// honoured says why a chain cannot be carried out by an authorization service. A chain that
// does not parse is left to the engine, which refuses it.
func honoured(key chainKey) error {
	switch {
	case key.text == "":
		return errNoChain
	case len(key.text) > contract.MaxChain:
		return errLongChain
	}
	parsed, err := contract.ParseChain([]byte(key.text))
	if err != nil {
		return nil
	}
	if parsed.Issues && !key.issues {
		return errNoIssuer // a workload would get the request, past its plugins
	}
	for _, p := range parsed.Plugins {
		inBody, hides := false, false
		switch {
		case p.OAuth2 != nil:
			inBody, hides = p.OAuth2.InBody, p.OAuth2.HideCredentials
		case p.KeyAuth != nil:
			inBody, hides = p.KeyAuth.InBody, p.KeyAuth.HideCredentials
		}
		switch {
		case inBody && hides:
			return errHides
		case inBody && !key.bodies:
			return errNoBodies
		}
	}
	return nil
}

// sweep forgets the chains that were not used again, or all if each was.
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

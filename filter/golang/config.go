package golang

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/envoyproxy/envoy/contrib/golang/common/go/api"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/host"
)

// config is a configuration in use. One that could not be made refuses every request to which it
// applies.
type config struct {
	document
	host            *host.Host
	source, program uint32
	strips          bool // the listener removes the headers that clients may not send
	marked          bool // each route says whether it has a chain
	unusable        bool // it could not be read, so it refuses every request
	// uses counts the use by Envoy itself and those by requests. The end of the last one gives
	// the handles back.
	uses      atomic.Int64
	destroyed atomic.Bool
}

var (
	errPanicked      = errors.New("reading the configuration panicked")
	errForwarding    = errors.New("forwarding is for the dynamic module: the headers of this listener are its own to clean")
	errRouteSettings = errors.New("the listener's part of the configuration is not for routes")
)

func newConfig(d *document, h *host.Host) *config {
	c := &config{document: *d, host: h}
	c.uses.Store(1)
	return c
}

// newRefusal returns a configuration that refuses every request, because its handles name
// nothing.
func newRefusal(h *host.Host) *config {
	c := newConfig(&document{Chain: json.RawMessage("{}")}, h)
	c.unusable = true
	return c
}

// take begins a use. It returns false if the last use has ended.
func (c *config) take() bool {
	for n := c.uses.Load(); n > 0; n = c.uses.Load() {
		if c.uses.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// release ends a use.
func (c *config) release() {
	if c.uses.Add(-1) == 0 {
		c.host.ReleaseSource(c.source)
		c.host.ReleaseProgram(c.program)
	}
}

// Destroy implements [api.Config]. Envoy may call it more than once.
func (c *config) Destroy() {
	defer c.host.Recovered("destroy")
	if c.destroyed.CompareAndSwap(false, true) {
		c.release()
	}
}

func (c *config) acquireSource() error {
	source, parsed, err := c.host.AcquireSource(c.Listener)
	if err != nil {
		return err
	}
	if parsed.Forwarding != contract.ForwardingNone {
		c.host.ReleaseSource(source)
		return errForwarding
	}
	c.source, c.strips, c.marked = source, parsed.ListenerStrips, parsed.Marked
	return nil
}

// acquireProgram compiles the chain. If the chain cannot be used, there is no program, or one
// that refuses. Without a program every request is refused.
func (c *config) acquireProgram() {
	if !c.checks() {
		return
	}
	program, _, err := c.host.AcquireProgram(c.Chain)
	if err != nil {
		c.host.Log().Error("route refused", "error", err)
		return
	}
	c.program = program
}

// checks reports whether the filter decides requests.
func (c *config) checks() bool { return len(c.Chain) > 0 && !c.Disabled }

// silent reports whether it is the configuration of a route that should say whether it has a
// chain, and does not.
func (c *config) silent() bool { return c.marked && len(c.Chain) == 0 && !c.Disabled }

// parser makes configurations.
type parser struct {
	host *host.Host
	// parse is [parse] or, in a test, a function that panics.
	parse func(message *anypb.Any, route bool) (*config, error)
}

// NewParser returns the parser that reads and merges configurations for the filters of
// [NewFactory].
func NewParser(h *host.Host) api.StreamFilterConfigParser {
	return &parser{host: h, parse: func(message *anypb.Any, route bool) (*config, error) { return parse(h, message, route) }}
}

// Parse reads the configuration of a listener, or of a route if callbacks is nil. If the
// configuration of a listener cannot be used, Parse returns an error. That of a route refuses
// requests instead: if the route is part of the listener, Envoy reads the configuration with
// the first request, and an error would end the whole process.
func (p *parser) Parse(message *anypb.Any, callbacks api.ConfigCallbackHandler) (any, error) {
	route := callbacks == nil
	c, err := p.recovering(message, route)
	switch {
	case err == nil:
		return c, nil
	case route:
		p.host.Log().Error("route refused", "error", err)
		return newRefusal(p.host), nil
	default:
		return nil, fmt.Errorf("configuration of the filter: %w", err)
	}
}

// recovering calls parse and turns panics into errors.
func (p *parser) recovering(message *anypb.Any, route bool) (c *config, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			p.host.LogPanic("parse", fault)
			c, err = nil, errPanicked
		}
	}()
	return p.parse(message, route)
}

func parse(h *host.Host, message *anypb.Any, route bool) (*config, error) {
	d, err := read(message)
	if err != nil {
		return nil, err
	}
	if route && len(d.Listener) > 0 {
		return nil, errRouteSettings
	}
	c := newConfig(d, h)
	if !route {
		if err := c.acquireSource(); err != nil {
			return nil, err
		}
	}
	c.acquireProgram()
	return c, nil
}

// Merge makes the configuration of a route within a listener or within a virtual host. It runs
// on a worker. If one part cannot be used, the result refuses every request.
func (p *parser) Merge(parent, child any) (merged any) {
	merged = newRefusal(p.host)
	defer p.host.Recovered("merge")
	outer, ok := parent.(*config)
	inner, also := child.(*config)
	if !ok || !also {
		p.host.Log().Error("route refused: its configuration was not read")
		return merged
	}
	if outer.unusable || inner.unusable {
		return merged // the cause is in the log
	}
	d := document{Listener: outer.Listener, Chain: outer.Chain, Disabled: outer.Disabled}
	if len(inner.Chain) > 0 || inner.Disabled {
		d.Chain, d.Disabled = inner.Chain, inner.Disabled
	}
	c := newConfig(&d, p.host)
	if err := c.acquireSource(); err != nil {
		p.host.Log().Error("route refused", "error", err)
		return merged
	}
	c.acquireProgram()
	return c
}

package xdstest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/meshgate/meshgate/xds/resource"
)

// patience is how long a test waits for an expected event.
const patience = time.Minute

// View gives conditions access to what the client holds.
type View struct{ c *Client }

// Version returns the version held under a name, or "".
func (v View) Version(t resource.TypeURL, name string) string {
	if r := v.c.types[t].has[name]; r != nil {
		return r.Version
	}
	return ""
}

// Body returns the bytes held under a name.
func (v View) Body(t resource.TypeURL, name string) []byte {
	if r := v.c.types[t].has[name]; r != nil {
		return r.Body
	}
	return nil
}

// Names returns the held names in order.
func (v View) Names(t resource.TypeURL) []string {
	return slices.Sorted(maps.Keys(v.c.types[t].has))
}

// Refused returns the version that was refused under a name and not sent again since, "" for a
// removal.
func (v View) Refused(t resource.TypeURL, name string) (version string, ok bool) {
	version, ok = v.c.refused[t][name]
	return version, ok
}

// Asks reports whether the client subscribes to a name.
func (v View) Asks(t resource.TypeURL, name string) bool {
	_, ok := v.c.types[t].names[name]
	return ok
}

// Warming returns the number of clusters that are not warm.
func (v View) Warming() int { return len(v.c.warming) }

// Messages returns what has arrived so far.
func (v View) Messages() []Message { return slices.Clone(v.c.log) }

// Answers returns how many responses were accepted and refused.
func (v View) Answers() (acked, nacked int) { return v.c.acked, v.c.nacked }

// Err returns why the stream ended, or nil while it is open.
func (v View) Err() error { return v.c.err }

// Changed returns a channel that is closed at the next event of the stream. Take it before
// looking at the state.
func (c *Client) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// See calls f with the current state.
func (c *Client) See(f func(View)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(View{c})
}

// Messages returns what has arrived so far.
func (c *Client) Messages() []Message {
	var out []Message
	c.See(func(v View) { out = v.Messages() })
	return out
}

// WaitFor blocks until the condition holds. It fails the test after a while.
func (c *Client) WaitFor(t testing.TB, what string, cond func(View) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		c.mu.Lock()
		ok, changed, err := cond(View{c}), c.changed, c.err
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s did not happen (stream error %v); messages %+v", what, err, c.Messages())
		}
	}
}

// Expectation compares what is held of one type.
type Expectation struct {
	c *Client
	t resource.TypeURL
}

// Request names the type to compare.
func (c *Client) Request(t resource.TypeURL) Expectation { return Expectation{c, t} }

// Equals blocks until exactly these resources are held, by name and version.
func (e Expectation) Equals(t testing.TB, want ...*resource.Resource) {
	t.Helper()
	versions := map[string]string{}
	for _, r := range want {
		versions[r.Name] = r.Version
	}
	e.c.WaitFor(t, fmt.Sprintf("%s equal to %v", e.t, versions), func(v View) bool {
		has := map[string]string{}
		for _, n := range v.Names(e.t) {
			has[n] = v.Version(e.t, n)
		}
		return maps.Equal(versions, has)
	})
}

// Versions returns what a returning proxy would list, with its subscriptions.
func (c *Client) Versions() (versions map[resource.TypeURL]map[string]string, names map[resource.TypeURL][]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	versions, names = map[resource.TypeURL]map[string]string{}, map[resource.TypeURL][]string{}
	for t, h := range c.types {
		versions[t] = map[string]string{}
		for n, r := range h.has {
			versions[t][n] = r.Version
		}
		names[t] = slices.Sorted(maps.Keys(h.names))
	}
	return versions, names
}

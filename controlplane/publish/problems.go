package publish

import (
	"maps"
	"slices"
	"sync"
)

// listed holds the failures of a scope by the dataplane that they concern. Failures under
// the empty name concern the whole scope.
type listed map[string][]Failure

// problems holds the failures of every scope. Readers never wait for a plan, and find the
// failures of one proxy without a search.
type problems struct {
	mu     sync.RWMutex
	scopes map[string]listed
}

// set replaces the failures of a scope.
func (p *problems) set(scope string, fs listed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(fs) == 0 {
		delete(p.scopes, scope)
		return
	}
	if p.scopes == nil {
		p.scopes = map[string]listed{}
	}
	p.scopes[scope] = maps.Clone(fs)
}

// replace replaces the failures of one dataplane.
func (p *problems) replace(scope, dataplane string, fs []Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.scopes[scope] == nil {
		if p.scopes == nil {
			p.scopes = map[string]listed{}
		}
		p.scopes[scope] = listed{}
	}
	if len(fs) == 0 {
		delete(p.scopes[scope], dataplane)
		return
	}
	p.scopes[scope][dataplane] = fs
}

func (p *problems) drop(scope string) { p.set(scope, nil) }

// list returns the failures of the named scopes, or of all scopes if no name is given.
func (p *problems) list(scopes ...string) (out []Failure) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for name, s := range p.scopes {
		if len(scopes) > 0 && !slices.Contains(scopes, name) {
			continue
		}
		for _, fs := range s {
			out = append(out, fs...)
		}
	}
	return out
}

// of returns the failures that concern one proxy, including those of its whole scope.
func (p *problems) of(scope, dataplane string) (out []failure) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	s := p.scopes[scope]
	for _, f := range slices.Concat(s[""], s[dataplane]) {
		out = append(out, f.Failure)
	}
	return out
}

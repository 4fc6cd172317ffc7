package loop

import (
	"slices"
	"sync"
)

// problems are the failures of every scope, for readers: they never wait for a
// plan, and the failures of one proxy are found without a walk.
type problems struct {
	mu     sync.RWMutex
	scopes map[string]ofScope
}

type ofScope struct {
	// all concern the whole scope.
	all []failure
	// of are those of single proxies, by dataplane.
	of map[string][]failure
	// listed are all of them.
	listed []Failure
}

// set replaces the failures of a scope.
func (p *problems) set(scope string, fs []Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(fs) == 0 {
		delete(p.scopes, scope)
		return
	}
	s := ofScope{of: map[string][]failure{}, listed: fs}
	for _, f := range fs {
		if f.Dataplane == "" {
			s.all = append(s.all, f.Failure)
		} else {
			s.of[f.Dataplane] = append(s.of[f.Dataplane], f.Failure)
		}
	}
	if p.scopes == nil {
		p.scopes = map[string]ofScope{}
	}
	p.scopes[scope] = s
}

func (p *problems) drop(scope string) { p.set(scope, nil) }

// list returns the failures of the named scopes, of all if there is no name.
func (p *problems) list(scopes ...string) (out []Failure) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for name, s := range p.scopes {
		if len(scopes) == 0 || slices.Contains(scopes, name) {
			out = append(out, s.listed...)
		}
	}
	return out
}

// of returns what concerns one proxy.
func (p *problems) of(scope, dataplane string) []failure {
	p.mu.RLock()
	defer p.mu.RUnlock()
	s, ok := p.scopes[scope]
	if !ok {
		return nil
	}
	return slices.Concat(s.all, s.of[dataplane])
}

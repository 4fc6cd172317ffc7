// Package hosttest has stand-ins for the parts around a filter host: a token cache with one
// token, and a log that tests can read.
package hosttest

import (
	"strings"
	"sync"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// Chain is a chain of the service s that issues tokens.
const Chain = `{"route":"r","service":"s","issues":true,"plugins":[{"id":"plugin-1","oauth2":{"header":"authorization","hide_credentials":true,"in_body":true}}]}`

// Log is a log that tests can read. It keeps lines of level 2 (info) and above.
type Log struct {
	mu    sync.Mutex
	lines []string
}

// Enabled reports whether a line of a level is kept.
func (*Log) Enabled(level int) bool { return level >= 2 }

// Write keeps a line.
func (l *Log) Write(level int, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(rune('0'+level))+" "+string(line))
}

// Text returns all lines, each with its level before it.
func (l *Log) Text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// Tokens is a token cache with one token in its first level. The token "bad" is unknown
// there, and all others are missing.
type Tokens struct {
	Hash   contract.Hash
	Packed []byte
	// Closed is closed by Close.
	Closed chan struct{}
	// Resolve replaces the deeper levels.
	Resolve func(done func(contract.Answer, []byte))
	// GivenUp is called when a look-up was given up. It may be nil.
	GivenUp func()
}

// NewTokens returns a cache that knows a token of the consumer consumer-1 (alice) for the
// service s.
func NewTokens(token string) *Tokens {
	r := contract.Record{Version: 1, Service: "s", Credential: contract.Credential{ID: "c", ClientID: "client-1"},
		Consumer: &contract.Consumer{ID: "consumer-1", Username: "alice"}}
	return &Tokens{Hash: contract.HashToken([]byte(token)), Packed: r.Pack(nil), Closed: make(chan struct{})}
}

// Lookup asks the first level.
func (k *Tokens) Lookup(hash contract.Hash, dst []byte) (int, contract.Answer) {
	switch hash {
	case k.Hash:
		return copy(dst, k.Packed), contract.Found
	case contract.HashToken([]byte("bad")):
		return 0, contract.Unknown
	}
	return 0, contract.Miss
}

// ResolveFor asks Resolve.
func (k *Tokens) ResolveFor(_ tokencache.Asker, _ contract.Hash, _ string, done func(contract.Answer, []byte)) (giveUp func()) {
	k.Resolve(done)
	return func() {
		if k.GivenUp != nil {
			k.GivenUp()
		}
	}
}

// Close closes Closed.
func (k *Tokens) Close() { close(k.Closed) }

// Command faulty is the library of the contrib filter with a token cache that panics: where
// the worker asks it about the token "first", and where a goroutine does about all others.
package main

import (
	"github.com/envoyproxy/envoy/contrib/golang/common/go/api"
	"github.com/envoyproxy/envoy/contrib/golang/filters/http/source/go/pkg/http"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/golang"
	"github.com/meshgate/meshgate/filter/host"
	"github.com/meshgate/meshgate/filter/tokencache"
)

type tokens struct{}

func (tokens) Lookup(hash contract.Hash, _ []byte) (int, contract.Answer) {
	if hash == contract.HashToken([]byte("first")) {
		panic("injected on the worker")
	}
	return 0, contract.Miss
}

func (tokens) ResolveFor(tokencache.Asker, contract.Hash, string, func(contract.Answer, []byte)) (giveUp func()) {
	panic("injected in a goroutine")
}

func (tokens) Close() {}

// log sends lines to the host's.
type log struct{}

func (log) Enabled(int) bool         { return true }
func (log) Write(_ int, line []byte) { api.LogError(string(line)) }

func init() {
	h := host.New(host.NewLogger(log{}), func(*host.Host, *contract.Settings, string) (host.Tokens, error) { return tokens{}, nil })
	http.RegisterHttpFilterFactoryAndConfigParser(contract.FilterName, golang.NewFactory(h), golang.NewParser(h))
}

func main() {}

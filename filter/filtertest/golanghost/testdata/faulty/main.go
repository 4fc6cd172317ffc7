// Command faulty is the library of the contrib filter with a token cache that panics: where
// the worker asks it about the token "first", and where a goroutine does about all others.
package main

import (
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/golang/library"
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

func init() {
	library.Register(func(*host.Host, *contract.Settings, string) (host.Tokens, error) { return tokens{}, nil })
}

func main() {}

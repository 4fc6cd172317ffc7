// Command plugin is the filter as a library of Envoy's contrib build, libmeshgate-golang.so.
// Package golang describes it.
package main

import (
	"github.com/meshgate/meshgate/filter/golang/library"
	"github.com/meshgate/meshgate/filter/host"
)

func init() { library.Register((*host.Host).OpenCache) }

// main is demanded by the build modes of libraries and never runs.
func main() {}

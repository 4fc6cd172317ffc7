// Command plugin is the filter as a library of Envoy's contrib build, libmeshgate-golang.so.
// Package golang describes it.
package main

import (
	"os"
	"runtime"

	"github.com/envoyproxy/envoy/contrib/golang/common/go/api"
	"github.com/envoyproxy/envoy/contrib/golang/filters/http/source/go/pkg/http"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/golang"
	"github.com/meshgate/meshgate/filter/host"
)

// library is the state behind the filter, which Envoy never unloads.
var library = host.New(host.NewLogger(envoyLog{}), (*host.Host).OpenCache)

// envoyLog is the log of the Envoy that has loaded this library.
type envoyLog struct{}

// Enabled implements [host.Sink].
func (envoyLog) Enabled(level int) bool { return int(api.GetLogLevel()) <= level }

// Write implements [host.Sink].
func (envoyLog) Write(level int, line []byte) {
	write := [...]func(string){api.LogTrace, api.LogDebug, api.LogInfo, api.LogWarn, api.LogError}
	write[min(max(level, 0), len(write)-1)](string(line))
}

func init() {
	// This interface does not say how many workers Envoy has, so Go's own choice stays.
	host.Prepare(library, runtime.GOMAXPROCS(0), os.Getenv)
	http.RegisterHttpFilterFactoryAndConfigParser(contract.FilterName, golang.NewFactory(library), golang.NewParser(library))
}

// main is demanded by -buildmode=c-shared and never runs.
func main() {}

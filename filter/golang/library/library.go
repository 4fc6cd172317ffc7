// Package library makes the filter of package golang known to the official interface for Go,
// in a library that Envoy loads.
package library

import (
	"os"
	"runtime"

	"github.com/envoyproxy/envoy/contrib/golang/common/go/api"
	"github.com/envoyproxy/envoy/contrib/golang/filters/http/source/go/pkg/http"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/golang"
	"github.com/meshgate/meshgate/filter/host"
)

// envoyLog is the log of the Envoy that has loaded the library.
type envoyLog struct{}

// Enabled implements [host.Sink].
func (envoyLog) Enabled(level int) bool { return int(api.GetLogLevel()) <= level }

// Write implements [host.Sink].
func (envoyLog) Write(level int, line []byte) {
	write := [...]func(string){api.LogTrace, api.LogDebug, api.LogInfo, api.LogWarn, api.LogError}
	write[min(max(level, 0), len(write)-1)](string(line))
}

// Register makes the filter of this process, with what opens token caches. It is called once,
// by an init function: Envoy never unloads the library.
func Register(open func(*host.Host, *contract.Settings, string) (host.Tokens, error)) {
	h := host.New(host.NewLogger(envoyLog{}), open)
	// This interface does not say how many workers Envoy has, so Go's own choice stays.
	host.Prepare(h, runtime.GOMAXPROCS(0), os.Getenv)
	front = golang.NewFront(h)
	http.RegisterHttpFilterFactoryAndConfigParser(contract.FilterName, golang.NewFactory(h), front.Parser())
}

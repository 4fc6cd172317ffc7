package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/agent"
	"github.com/meshgate/meshgate/controlplane/authz"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/version"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/extauthz"
)

// Filter is how a proxy has the filter.
type Filter struct {
	mode contract.Mode
	// dir and file are the library of the filter; empty if Envoy loads none.
	dir, file string
	// asked is the path of the socket of an authorization service that somebody else runs.
	asked string
}

// FindFilter finds what the configured filter needs. It fails if this Envoy cannot have it.
func FindFilter(ctx context.Context, c *config.Config, envoy string) (f Filter, err error) {
	f.mode = c.Filter.Of()
	switch f.mode {
	case contract.ModeExtAuthz:
		f.asked = c.Filter.Socket()
		return f, f.safe()
	case contract.ModeGolang:
		f.file = contract.GolangLibrary
	default:
		f.file = contract.ModuleLibrary
	}
	if f.dir, err = FindModule(c.ModulePath, f.file); err != nil || f.mode != contract.ModeGolang {
		return f, err
	}
	return f, runsGo(ctx, envoy)
}

// safe returns an error if others could pose as the authorization service of somebody else. The
// service may start later, but its folder must be there. What this finds stays so: nobody but
// this user and root can change a folder on the way.
func (f Filter) safe() error {
	if f.asked == "" {
		return nil
	}
	if err := extauthz.CheckFolder(filepath.Dir(f.asked)); err != nil {
		return fault.NotBegun(fmt.Errorf("filter.authz: %w", err))
	}
	return nil
}

// version returns the version of the filter.
func (f Filter) version() string {
	if f.file != "" {
		return versionOfLibrary(filepath.Join(f.dir, f.file))
	}
	if f.asked != "" {
		return ""
	}
	return version.Program
}

// Into completes the options of an agent.
func (f Filter) Into(o *agent.Options, envoyLine string) {
	o.Filter, o.ModuleDir, o.AuthzAddress, o.Versions = f.mode, f.dir, f.asked, VersionsOfProxy(envoyLine, f.version())
	if f.mode == contract.ModeExtAuthz && f.asked == "" {
		o.Authz = authz.New(o.Log.With(slog.String("component", "authz")))
	}
}

// OfSidecar changes the options of a gateway's agent to those of a sidecar beside it, which
// has the module in whatever way the gateway has the filter.
func OfSidecar(ctx context.Context, c *config.Config, o *agent.Options) error {
	own := *c
	own.Filter = config.Filter{Mode: contract.ModeModule.String()}
	f, err := FindFilter(ctx, &own, o.EnvoyPath)
	if err != nil {
		return err
	}
	o.Filter, o.ModuleDir, o.AuthzAddress, o.Authz, o.Versions.Module = f.mode, f.dir, "", nil, f.version()
	return nil
}

// validateTime bounds the question whether an Envoy has a filter.
const validateTime = 30 * time.Second

// goProbe is a configuration that only an Envoy with the filter for Go reads. Its library does
// not exist, which Envoy finds out later.
const goProbe = `{"static_resources":{"listeners":[{"name":"probe","address":{"socket_address":{"address":"127.0.0.1","port_value":1}},"filter_chains":[{"filters":[{
"name":"envoy.filters.network.http_connection_manager","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
"stat_prefix":"probe","route_config":{},"http_filters":[{"name":"` + contract.GolangFilter + `","typed_config":{
"@type":"type.googleapis.com/envoy.extensions.filters.http.golang.v3alpha.Config","library_id":"probe","library_path":"/nonexistent","plugin_name":"probe"}}]}}]}]}]}}`

// These are the words of an Envoy that does not know the filter of goProbe. One that does has
// others, about its library.
const (
	unknownType   = "could not find @type"
	unknownFilter = "Didn't find a registered implementation"
)

// runsGo returns an error for an Envoy that has no filter for Go. Its version does not tell,
// so it is asked to read a configuration with one.
func runsGo(ctx context.Context, envoy string) error {
	dir, err := os.MkdirTemp("", "meshgate-probe-")
	if err != nil {
		return fault.NotBegun(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "envoy.json")
	if err := os.WriteFile(file, []byte(goProbe), 0o600); err != nil {
		return fault.NotBegun(err)
	}
	ctx, cancel := context.WithTimeout(ctx, validateTime)
	defer cancel()
	out, _ := exec.CommandContext(ctx, envoy, "--mode", "validate", "-l", "warning", "-c", file).CombinedOutput() //nolint:gosec // the operator names the binary
	if ctx.Err() != nil {
		return fault.NotBegun(fmt.Errorf("filter.mode %s: Envoy at %s does not say within %s whether it has the filter for Go", contract.ModeGolang, envoy, validateTime))
	}
	if text := string(out); strings.Contains(text, unknownType) || strings.Contains(text, unknownFilter) {
		return fault.NotBegun(fmt.Errorf("filter.mode %s needs an Envoy of the contrib distribution: the one at %s has no filter %s; set envoy.path (environment ENVOY_PATH), or use filter.mode %s or %s",
			contract.ModeGolang, envoy, contract.GolangFilter, contract.ModeModule, contract.ModeExtAuthz))
	}
	return nil
}

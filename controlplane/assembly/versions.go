package assembly

import (
	"cmp"
	"debug/buildinfo"
	"path/filepath"
	"strings"

	"github.com/meshgate/meshgate/controlplane/agent"
	"github.com/meshgate/meshgate/controlplane/version"
)

// VersionsOfProxy says what an agent of this process runs.
func VersionsOfProxy(envoyLine, moduleDir string) agent.Versions {
	return agent.Versions{Agent: version.Program, Envoy: versionOfEnvoy(envoyLine), Module: versionOfModule(moduleDir)}
}

// versionOfEnvoy reads what envoy --version says:
// "<path> version: <commit>/<version>/<state>/<type>/<TLS library>". The path has
// slashes, too.
func versionOfEnvoy(line string) string {
	if at := strings.LastIndex(line, "version: "); at >= 0 {
		if parts := strings.Split(line[at:], "/"); len(parts) > 1 {
			return parts[1]
		}
	}
	return ""
}

// versionOfModule reads what the filter's library was built from: its version, or the
// revision of its sources where that has none; empty if it does not say.
func versionOfModule(dir string) string {
	info, err := buildinfo.ReadFile(filepath.Join(dir, moduleFile))
	if err != nil {
		return "" // Envoy says more if it cannot be loaded
	}
	revision := ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value[:min(len(s.Value), 12)]
		}
	}
	if info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return cmp.Or(revision, "development")
}

package assembly

import (
	"cmp"
	"debug/buildinfo"
	"strings"

	"github.com/meshgate/meshgate/controlplane/agent"
	"github.com/meshgate/meshgate/controlplane/version"
)

// VersionsOfProxy returns the versions of what an agent of this process runs.
func VersionsOfProxy(envoyLine, filter string) agent.Versions {
	return agent.Versions{Agent: version.Program, Envoy: versionOfEnvoy(envoyLine), Module: filter}
}

// versionOfEnvoy parses the output of envoy --version, "<path> version:
// <commit>/<version>/<state>/<type>/<TLS library>". The path contains slashes as well.
func versionOfEnvoy(line string) string {
	if at := strings.LastIndex(line, "version: "); at >= 0 {
		if parts := strings.Split(line[at:], "/"); len(parts) > 1 {
			return parts[1]
		}
	}
	return ""
}

// versionOfLibrary reads from which version the filter's library was built, or from which
// revision of its sources if it has no version; empty if that is unknown.
func versionOfLibrary(file string) string {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return "" // if the library cannot be loaded, Envoy reports why
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

// Package version says what a binary was built from and what it was tested with.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Program is the version of this build; the linker sets it.
var Program = "development"

// Envoy is the version of Envoy that this build was tested with.
const Envoy = "1.39.3"

// Line says what this binary was built from, for people; it ends with a newline.
func Line() string {
	revision := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	return fmt.Sprintf("meshgate %s (revision %s, %s, %s/%s, for Envoy %s)\n",
		Program, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH, Envoy)
}

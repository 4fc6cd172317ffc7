package golanghost

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"testing"
)

// A loaded library leaves SIGPIPE ignored, as Envoy has it. Go's own handler would end the
// process when standard error has no reader any more.
func TestBrokenPipesEndNothing(t *testing.T) { both(t, testBrokenPipesEndNothing) }

func testBrokenPipesEndNothing(t *testing.T, way way) {
	e := startEnvoy(t, plugin, way)
	e.config(false, "{}") // the library is loaded once this is answered
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^SigIgn:\s*([0-9a-f]+)$`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("no signals in %s", status)
	}
	ignored, err := strconv.ParseUint(string(found[1]), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	if ignored>>(uint(syscall.SIGPIPE)-1)&1 == 0 {
		t.Errorf("SIGPIPE is not ignored, but %x", ignored)
	}
}

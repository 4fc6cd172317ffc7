package tokencache

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestInstanceBeginsWithTheProcess: the instance begins with the name of the process only if
// the agent gave it a well-formed one. Any other prefix could be mistaken for a name.
func TestInstanceBeginsWithTheProcess(t *testing.T) {
	process := rand.Text()
	t.Setenv(contract.ProcessEnv, process)
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		rest, ok := strings.CutPrefix(w.live().hello.Instance, process+".")
		if !ok || len(rest) != len(rand.Text()) {
			t.Errorf("instance %q of process %s", w.cache.instance, process)
		}
	})
	if first := newInstance(process); first == newInstance(process) {
		t.Error("two caches of a process have one name")
	}
	for _, bad := range []string{"", "short", process + "x", process[:25] + ".", process[:25] + "\n", process[:24] + "é"} {
		if got := newInstance(bad); strings.Contains(got, ".") || len(got) != len(rand.Text()) {
			t.Errorf("process %q: instance %q", bad, got)
		}
	}
}

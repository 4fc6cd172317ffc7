package ports_test

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/meshgate/meshgate/e2e/ports"
)

// Ports that are handed out are different although nobody has opened them yet,
// and one that is in use is passed over.
func TestPortsAreHandedOutOnce(t *testing.T) {
	const callers, each = 8, 20
	got := make([][]int, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			var err error
			if got[i], err = ports.Free(each); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	seen := map[int]bool{}
	for _, list := range got {
		for _, port := range list {
			if seen[port] {
				t.Errorf("port %d was handed out twice", port)
			}
			seen[port] = true
		}
	}
	if len(seen) != callers*each {
		t.Errorf("%d ports, want %d", len(seen), callers*each)
	}
}

func TestPortsInUseArePassedOver(t *testing.T) {
	probe, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	taken := probe[0] + 1
	// If it cannot be listened on, another process has it, and it is in use as well.
	if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", taken)); err == nil {
		defer ln.Close()
	}
	next, err := ports.Free(3)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(next, taken) {
		t.Errorf("port %d is in use and was handed out: %v", taken, next)
	}
}

package framework

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"

	"github.com/onsi/gomega"
)

// Ports are taken from below the range that the kernel gives to outgoing
// connections, so that no connection of the test can take one before the
// process that it is meant for has opened it.
const (
	firstPort = 12000
	lastPort  = 31000
)

var (
	portsMu sync.Mutex
	next    = firstPort + rand.IntN(lastPort-firstPort)
)

// FreePorts returns ports that nobody listens on now and that it has not
// returned lately.
func FreePorts(n int) []int {
	portsMu.Lock()
	defer portsMu.Unlock()
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		gomega.Expect(tries).To(gomega.BeNumerically("<", lastPort-firstPort), "no free ports")
		if next++; next >= lastPort {
			next = firstPort
		}
		ln, err := net.Listen("tcp", fmt.Sprintf(":%d", next))
		if err != nil {
			continue
		}
		_ = ln.Close()
		ports = append(ports, next)
	}
	return ports
}

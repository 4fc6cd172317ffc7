package framework

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/onsi/gomega"
)

// Ports are taken from below the range that the kernel gives to outgoing
// connections, so that no connection of the test can take one before the
// process that it is meant for has opened it.
const (
	firstPort = 12000
	lastPort  = 31000
)

var portsMu sync.Mutex

// FreePorts returns ports that nobody listens on now. All test processes of a
// user count on in one file, so suites that run side by side are not given the
// same port before either has opened it.
func FreePorts(n int) []int {
	portsMu.Lock()
	defer portsMu.Unlock()
	counter, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("meshgate-ports-%d", os.Getuid())), os.O_RDWR|os.O_CREATE, 0o600)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	defer func() { _ = counter.Close() }() // and so releases the lock
	gomega.Expect(syscall.Flock(int(counter.Fd()), syscall.LOCK_EX)).To(gomega.Succeed())
	next := firstPort + rand.IntN(lastPort-firstPort)
	var last [4]byte
	if _, err := counter.ReadAt(last[:], 0); err == nil {
		next = int(binary.BigEndian.Uint32(last[:]))
	}
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		gomega.Expect(tries).To(gomega.BeNumerically("<", lastPort-firstPort), "no free ports")
		if next++; next < firstPort || next >= lastPort {
			next = firstPort
		}
		ln, err := net.Listen("tcp", fmt.Sprintf(":%d", next))
		if err != nil {
			continue
		}
		_ = ln.Close()
		ports = append(ports, next)
	}
	binary.BigEndian.PutUint32(last[:], uint32(next))
	_, err = counter.WriteAt(last[:], 0)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return ports
}

// Package ports hands out TCP ports for the processes that tests start: Envoys,
// Redises and control planes that are told their port before they open it.
package ports

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// The ports lie below the range that the kernel gives to outgoing connections
// and to listeners on port 0. A connection of the test can therefore not take a
// port before the process that it is meant for has opened it.
const (
	first = 12000
	last  = 31000
)

var mu sync.Mutex

// Free returns n different ports that nobody listens on now. All test processes
// of a user count on in one file, so tests that run side by side are not given
// the same port before either has opened it.
func Free(n int) (_ []int, err error) {
	mu.Lock()
	defer mu.Unlock()
	counter, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("meshgate-ports-%d", os.Getuid())), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, counter.Close()) }() // closing releases the lock
	if err := syscall.Flock(int(counter.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock %s: %w", counter.Name(), err)
	}
	next := first + rand.IntN(last-first)
	var place [4]byte
	if _, err := counter.ReadAt(place[:], 0); err == nil {
		next = int(binary.BigEndian.Uint32(place[:]))
	}
	var free []int
	for tries := 0; len(free) < n; tries++ {
		if tries > last-first {
			return nil, fmt.Errorf("no %d free ports between %d and %d", n, first, last)
		}
		if next++; next < first || next >= last {
			next = first
		}
		if opens(next) {
			free = append(free, next)
		}
	}
	binary.BigEndian.PutUint32(place[:], uint32(next))
	if _, err := counter.WriteAt(place[:], 0); err != nil {
		return nil, err
	}
	return free, nil
}

// opens says whether a port can be listened on, at every address.
func opens(port int) bool {
	ln, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return false
	}
	_ = ln.Close() // nothing was accepted
	return true
}

package scrape

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/xds/scraping"
)

// TestDialsEndWithThePage: where nobody takes connections, the attempt to make one ends with the
// page, and is not left behind.
func TestDialsEndWithThePage(t *testing.T) {
	at := full(t)
	begun := make(chan struct{})
	page, end := context.WithCancel(t.Context())
	client := newClient(page, func(netip.AddrPort) error { close(begun); return nil })
	asked := make(chan error, 1)
	go func() {
		_, err := ask(page, client, scraping.Application{At: at, Path: "/"}, budgetOf(1))
		asked <- err
	}()
	<-begun
	end()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	goleak.VerifyNone(t)
}

// full returns the address of a listener whose queue has no room.
func full(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		err = syscall.Listen(fd, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "listener")
	t.Cleanup(func() { _ = file.Close() })
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(name.(*syscall.SockaddrInet4).Port))
	first, err := net.Dial("tcp", at.String()) // a queue of 0 has room for one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Close() })
	return at
}

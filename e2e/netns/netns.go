// Package netns gives a test a network of its own, with another machine on it, so that it may
// change what the kernel does with connections. Both are namespaces of this machine.
package netns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inside is set in the process that runs in namespaces of its own.
const inside = "MESHGATE_E2E_IN_NAMESPACE"

// users is how many users a process with namespaces of its own knows.
const users = 65536

// ErrNotPermitted says that this user may not have namespaces with several users.
var ErrNotPermitted = errors.New("only root may have several users in a namespace")

// Inside reports whether this process runs in namespaces of its own.
func Inside() bool { return os.Getenv(inside) != "" }

// Again runs the program of this test once more, with a network and users of its own, where it
// is root. The error is [ErrNotPermitted] if it was not started.
func Again(ctx context.Context, args ...string) (output []byte, err error) {
	c := exec.CommandContext(ctx, os.Args[0], args...)
	c.Env = append(os.Environ(), inside+"=1")
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: users}}
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true}
	output, err = c.CombinedOutput()
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EINVAL) {
		return nil, fmt.Errorf("%w: %w", ErrNotPermitted, err)
	}
	return output, err
}

// These are the addresses of this machine and of the other one.
const (
	Here4  = "192.0.2.1"
	There4 = "192.0.2.2"
	Here6  = "2001:db8::1"
	There6 = "2001:db8::2"
)

// Cable joins this machine and another one.
type Cable struct {
	jobs  chan func()
	ended chan struct{}
}

// New makes the other machine, which is also the way to every other network. It is called in a
// process that [Again] has started.
func New() (*Cable, error) {
	c := &Cable{jobs: make(chan func()), ended: make(chan struct{})}
	made := make(chan error, 1)
	go func() {
		defer close(c.ended)
		runtime.LockOSThread() // the thread ends with this goroutine, and its network with it
		err := unix.Unshare(unix.CLONE_NEWNET)
		made <- err
		if err != nil {
			return
		}
		for job := range c.jobs {
			job()
		}
	}()
	if err := <-made; err != nil {
		return nil, err
	}
	if err := c.join(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the other machine. The cable is taken out at once: the kernel would do so some time
// after the other machine has ended.
func (c *Cable) Close() {
	if link, err := netlink.LinkByName("here"); err == nil {
		_ = netlink.LinkDel(link)
	}
	close(c.jobs)
	<-c.ended
}

// There runs a function on the other machine: sockets that it opens, and processes that it
// starts, are there. It must open them in this goroutine.
func (c *Cable) There(f func()) {
	done := make(chan struct{})
	c.jobs <- func() { defer close(done); f() }
	<-done
}

func (c *Cable) join() (err error) {
	var other int
	c.There(func() {
		other, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(other) }()
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "here"}, PeerName: "there"}); err != nil {
		return err
	}
	peer, err := netlink.LinkByName("there")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetNsFd(peer, other); err != nil {
		return err
	}
	c.There(func() { err = errors.Join(up("lo"), up("there", There4+"/24", There6+"/64")) })
	if err = errors.Join(err, up("lo"), up("here", Here4+"/24", Here6+"/64")); err != nil {
		return err
	}
	link, err := netlink.LinkByName("here")
	if err != nil {
		return err
	}
	way, err := netlink.ParseAddr(There4 + "/32")
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: way.IP})
}

// up gives an interface addresses. Those of IPv6 are usable at once.
func up(name string, addresses ...string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	for _, text := range addresses {
		a, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		a.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(link, a); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// As runs a function as a user, as far as the kernel looks at who opens a socket.
func As(uid int, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.SetfsuidRetUid(uid)
	if err != nil {
		panic(err)
	}
	defer func() { _ = unix.Setfsuid(before) }()
	f()
}

// Add gives this machine another address on the cable, with the length of its network.
func (c *Cable) Add(address string) error { return up("here", address) }

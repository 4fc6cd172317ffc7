package extauthz

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/meshgate/meshgate/filter/contract"
)

// folder makes a folder in which only this user may write, whatever the umask is.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "authz")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// left leaves a socket on which nobody listens, as a process that was killed does.
func left(t *testing.T, path string) {
	t.Helper()
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	lis.SetUnlinkOnClose(false)
	if err := lis.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPortsAreRefused: a port is no place for the service, not even on loopback, and the error
// says what is.
func TestPortsAreRefused(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "192.0.2.1:9191", "[::]:0", "localhost:0", "9191", "127.0.0.1:0", "[::1]:0", "unix://s", "/run/s", ""} {
		refuses(t, address, "must be unix:// and an absolute path, such as unix:///run/meshgate/authz.sock")
	}
}

// refuses demands that the service does not listen on an address, and says why.
func refuses(t *testing.T, address, why string) {
	t.Helper()
	lis, err := Listen(t.Context(), address)
	if err == nil {
		_ = lis.Close()
		t.Errorf("%s: listens", address)
	} else if !strings.Contains(err.Error(), why) {
		t.Errorf("%s: %v, want %q", address, err, why)
	}
}

// TestListen: a socket that was left behind is replaced, one that answers and what is no socket
// are not. The path is free again afterwards, and nothing is left beside it.
func TestListen(t *testing.T) {
	dir := folder(t)
	path := filepath.Join(dir, "s")
	left(t, path)
	lis, err := Listen(t.Context(), contract.UnixPrefix+path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || lis.Addr().String() != path {
		t.Errorf("%v at %s: %v", info.Mode(), lis.Addr(), err)
	}
	refuses(t, contract.UnixPrefix+path, "another server listens on "+path)
	if c, err := net.Dial("unix", path); err != nil {
		t.Error(err)
	} else {
		_ = c.Close()
	}
	for range 2 {
		_ = lis.Close()
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, contract.UnixPrefix+path, path+" is no socket")
}

// TestTheSocketOfAnotherStays: of two services that start at the same time the second replaces the
// socket of the first, which leaves it alone when it ends.
func TestTheSocketOfAnotherStays(t *testing.T) {
	path := filepath.Join(folder(t), "s")
	first, err := open(t.Context(), path) // both have found the path free
	if err != nil {
		t.Fatal(err)
	}
	second, err := open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	_ = second.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the second leaves it behind: %v", err)
	}
}

// TestNobodyElseMayUseTheSocket: at its path the socket is complete from the first moment. It
// comes there by a change of its name, and its mode is not changed any more.
func TestNobodyElseMayUseTheSocket(t *testing.T) {
	dir := folder(t)
	watch, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(watch) }()
	if _, err := syscall.InotifyAddWatch(watch, dir, syscall.IN_CREATE|syscall.IN_MOVED_TO|syscall.IN_ATTRIB); err != nil {
		t.Fatal(err)
	}
	lis, err := Listen(t.Context(), contract.UnixPrefix+filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	buf := make([]byte, 64<<10)
	n, err := syscall.Read(watch, buf)
	if err != nil {
		t.Fatal(err)
	}
	var came []uint32
	for b := buf[:n]; len(b) > 0; {
		e := (*syscall.InotifyEvent)(unsafe.Pointer(&b[0]))
		name := strings.TrimRight(string(b[syscall.SizeofInotifyEvent:syscall.SizeofInotifyEvent+e.Len]), "\x00")
		if name == "s" {
			came = append(came, e.Mask)
		}
		b = b[syscall.SizeofInotifyEvent+e.Len:]
	}
	if len(came) != 1 || came[0] != syscall.IN_MOVED_TO {
		t.Errorf("events of the socket: %#x, want one move", came)
	}
}

// TestLongPaths: the longest folder works, and a longer one is refused with the limits.
func TestLongPaths(t *testing.T) {
	base := folder(t)
	for length, refused := range map[int]bool{maxFolder: false, maxFolder + 1: true} {
		dir := base + "/" + strings.Repeat("x", length-len(base)-1)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		lis, err := Listen(t.Context(), contract.UnixPrefix+dir+"/authz.sock")
		if err == nil {
			_ = lis.Close()
		}
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "too long") {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}

// TestSocketThatIsGone: whoever listens learns that nobody reaches it any more.
func TestSocketThatIsGone(t *testing.T) {
	path := filepath.Join(folder(t), "s")
	lis, err := Listen(t.Context(), contract.UnixPrefix+path)
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	if err := InPlace(lis); err != nil {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := InPlace(lis); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Error(err)
	}
	other, err := Listen(t.Context(), contract.UnixPrefix+path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := InPlace(lis); err == nil || !strings.Contains(err.Error(), "another socket") {
		t.Error(err)
	}
	plain, err := new(net.ListenConfig).Listen(t.Context(), "unix", path+"2")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if InPlace(plain) == nil {
		t.Error("no socket of Listen")
	}
}

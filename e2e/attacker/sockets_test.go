package attacker_test

import (
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// listening is where a process accepts connections, as its kernel tells: port numbers, and
// the names of files of Unix sockets.
func listening(pid int) (at []string, err error) {
	held := map[string]bool{}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		to, err := os.Readlink(f)
		if err != nil {
			continue // it was closed meanwhile
		}
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			held[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []struct {
		file                  string
		state, inode, address int
		listens               string
		name                  func(string) string
	}{
		{"tcp", 3, 9, 1, "0A", portOf},
		{"tcp6", 3, 9, 1, "0A", portOf},
		{"unix", 3, 6, 7, "00010000", filepath.Base},
	} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table.file))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) > max(table.inode, table.address) && f[table.state] == table.listens && held[f[table.inode]] {
				at = append(at, table.name(f[table.address]))
			}
		}
	}
	slices.Sort(at)
	return slices.Compact(at), nil
}

// portOf reads a port of the kernel's tables: an address and a port in hexadecimal digits.
func portOf(address string) string {
	_, port, _ := strings.Cut(address, ":")
	raw, err := hex.DecodeString(port)
	if err != nil || len(raw) != 2 {
		return address
	}
	return strconv.Itoa(int(raw[0])<<8 | int(raw[1]))
}

// TestListenersAreFound: what the list of doors is compared with has every listener, of
// either version of IP and of Unix, and no connection.
func TestListenersAreFound(t *testing.T) {
	before, err := listening(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, at := range [][2]string{{"tcp4", "127.0.0.1:0"}, {"tcp", ":0"}, {"unix", filepath.Join(t.TempDir(), "x.sock")}} {
		ln, err := net.Listen(at[0], at[1])
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		if a, ok := ln.Addr().(*net.TCPAddr); ok {
			want = append(want, strconv.Itoa(a.Port))
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", a.Port))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		} else {
			want = append(want, "x.sock")
		}
	}
	after, err := listening(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	found := slices.DeleteFunc(after, func(at string) bool { return slices.Contains(before, at) })
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
}

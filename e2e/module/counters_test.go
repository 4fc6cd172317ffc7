package module

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// counters are the library's meshgate_counters, in the order of lookup.h.
type counters struct {
	StreamsCreated, StreamsFreed uint64
	LookupsCreated, LookupsFreed uint64
	RoutesCreated, RoutesFreed   uint64
	ConfigsCreated, ConfigsFreed uint64

	DeadlinesCreated, DeadlinesFreed uint64
}

// counters reads them out of the memory of Envoy, our child: the library needs
// no door for it.
func (w *world) counters(t *testing.T) counters {
	t.Helper()
	buf := make([]byte, binary.Size(counters{}))
	w.peek(t, "meshgate_counters", buf)
	var c counters
	if _, err := binary.Decode(buf, binary.NativeEndian, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// peek fills buf with what a variable of the library has.
func (w *world) peek(t *testing.T, name string, buf []byte) {
	t.Helper()
	pid := w.envoy.cmd.Process.Pid
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, mem)
	if _, err := mem.ReadAt(buf, loadAddress(t, pid, w.lib)+symbolOffset(t, w.lib, name)); err != nil {
		t.Fatal(err)
	}
}

func symbolOffset(t *testing.T, lib, name string) int64 {
	t.Helper()
	f, err := elf.Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, f)
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for i := range symbols {
		if symbols[i].Name == name {
			return int64(symbols[i].Value)
		}
	}
	t.Fatalf("%s has no symbol %s", lib, name)
	return 0
}

func loadAddress(t *testing.T, pid int, lib string) int64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, f)
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) == 6 && fields[5] == lib && fields[2] == "00000000" {
			start, _, _ := strings.Cut(fields[0], "-")
			n, err := strconv.ParseInt(start, 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("process %d has not loaded %s", pid, lib)
	return 0
}

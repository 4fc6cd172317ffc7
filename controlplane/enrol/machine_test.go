package enrol

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTrustingPorts: the ports of a control plane are those of this machine, unless both sides
// know that they are on different ones.
func TestTrustingPorts(t *testing.T) {
	ports := []uint16{5681, 8001}
	told := Trusts(ports)
	if again := Trusts(ports); bytes.Equal(told.Machine, again.Machine) || len(told.Machine) != 32 {
		t.Error("two answers have one digest")
	}
	if Trusts(nil) != nil || (*Trusting)(nil).Here() != nil {
		t.Error("no ports")
	}
	over := func(change func(*Trusting)) []uint16 {
		t.Helper()
		raw, err := json.Marshal(told)
		if err != nil {
			t.Fatal(err)
		}
		got := new(Trusting)
		if err := json.Unmarshal(raw, got); err != nil {
			t.Fatal(err)
		}
		change(got)
		return got.Here()
	}
	for name, change := range map[string]func(*Trusting){
		"the same":                  func(*Trusting) {},
		"it does not know":          func(t *Trusting) { t.Machine = nil },
		"what it says is no digest": func(t *Trusting) { t.Machine = t.Machine[:4] },
	} {
		if got := over(change); !slices.Equal(got, ports) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := over(func(t *Trusting) { t.Machine[0]++ }); got != nil {
		t.Errorf("another machine: %v", got)
	}
}

// TestMachineIsBootAndNetwork: another boot and another network namespace are other machines.
// Without either nobody knows, and the control plane may be here.
func TestMachineIsBootAndNetwork(t *testing.T) {
	dir := t.TempDir()
	boot, network := bootFile, networkFile
	t.Cleanup(func() { bootFile, networkFile = boot, network })
	told := Trusts([]uint16{1})
	bootFile = filepath.Join(dir, "boot")
	if told.Here() == nil {
		t.Error("nobody knows which boot this is")
	}
	if err := os.WriteFile(bootFile, []byte(strings.Repeat("a", 36)), 0o600); err != nil {
		t.Fatal(err)
	}
	if told.Here() != nil {
		t.Error("another boot")
	}
	bootFile, networkFile = boot, filepath.Join(dir, "net")
	if told.Here() == nil {
		t.Error("nobody knows which network this is")
	}
	if err := os.Symlink("net:[1]", networkFile); err != nil {
		t.Fatal(err)
	}
	if told.Here() != nil {
		t.Error("another network")
	}
}

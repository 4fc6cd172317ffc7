package enrol

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
)

// Trusting says which ports of its own machine a control plane takes everybody on that machine
// for an administrator at. A proxy beside it must lead nobody there.
type Trusting struct {
	// Nonce is drawn for each answer.
	Nonce []byte `json:"nonce"`
	// Machine stands for the machine of the control plane; see [machine]. It is empty if the
	// control plane does not know.
	Machine []byte   `json:"machine,omitempty"`
	Ports   []uint16 `json:"ports"`
}

// Trusts returns what an answer says about these ports, nil if there are none.
func Trusts(ports []uint16) *Trusting {
	if len(ports) == 0 {
		return nil
	}
	t := &Trusting{Nonce: make([]byte, sha256.Size), Ports: ports}
	_, _ = rand.Read(t.Nonce) // never fails
	t.Machine, _ = machine(t.Nonce)
	return t
}

// Here returns the ports, if the control plane is on this machine. It is taken to be, unless both
// sides know where they are.
func (t *Trusting) Here() []uint16 {
	if t == nil {
		return nil
	}
	own, err := machine(t.Nonce)
	if err == nil && len(t.Machine) == len(own) && !hmac.Equal(own, t.Machine) {
		return nil
	}
	return t.Ports
}

// These files say which boot of which kernel this is, and with whom the loopback is shared.
var (
	bootFile    = "/proc/sys/kernel/random/boot_id"
	networkFile = "/proc/self/ns/net"
)

// machine returns a digest of where this process runs: processes have the same one if they
// share a loopback. The identity of a boot is random and secret enough, so a digest with a nonce
// discloses nothing, and nobody can compare it with an older one.
func machine(nonce []byte) ([]byte, error) {
	boot, err := os.ReadFile(bootFile)
	if err != nil || len(boot) < 32 {
		return nil, fmt.Errorf("which boot this is: %w", err)
	}
	network, err := os.Readlink(networkFile) // has the number of the namespace
	if err != nil {
		return nil, fmt.Errorf("which network this is: %w", err)
	}
	sum := hmac.New(sha256.New, nonce)
	_, _ = fmt.Fprintf(sum, "%s\n%s", boot, network)
	return sum.Sum(nil), nil
}

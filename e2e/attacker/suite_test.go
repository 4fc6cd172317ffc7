// Package attacker_test lets one hostile client loose on a gateway, and on a
// sidecar that demands tokens: random
// mixtures of paths, headers, credentials, bodies and framing, over HTTP/1 and
// HTTP/2, with and without TLS. Nobody says what each of them must get; an
// oracle says what none of them may reach:
//
//   - nothing arrives at the upstream of a protected route but with a
//     credential that is good there,
//   - and with the identity of that credential and no other,
//   - nobody gets a token without the secret of an application, nor one that is
//     bound to another service than that of the route,
//   - no answer is a 5xx, nothing crashes, and who behaves is served afterwards,
//     on the same connection where that goes on.
//
// She also comes to every port of a control plane, with the same mixtures, and with bytes of
// other protocols, broken TLS, frames of HTTP/2, calls of gRPC, documents, and slowly. There no
// answer is a 5xx, every conversation ends in time, no call is served, and neither memory nor
// goroutines grow. A listener without a door fails the suite.
//
// MESHGATE_E2E_ATTACK_SEED makes another run or repeats one, MESHGATE_E2E_ATTACK_ONLY
// one attack of it, and MESHGATE_E2E_ATTACK_COUNT says how many there are on each, 500
// at least; for the ports of the control plane it is the number for all of them.
package attacker_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// The world of the suite.
var (
	c   *framework.ControlPlane
	api *framework.API
)

func TestAttacker(t *testing.T) {
	RegisterFailHandler(Fail)
	framework.RunSuite(t, "attacker")
}

var _ = BeforeSuite(func() {
	c = framework.NewControlPlane("standalone").Start()
	api = c.API()
	seedConsumers()
	for _, t := range targets {
		t.seed()
	}
	api.Converged()
	gatewayDoor, sidecarDoor = openGateway(), openSidecar()
	Expect(gatewayDoor.envoy).NotTo(BeZero())
	Expect(sidecarDoor.envoy).NotTo(BeZero())
})

// variable reads a setting of the suite.
func variable[T any](name string, otherwise T, parse func(string) (T, error)) T {
	text := os.Getenv("MESHGATE_E2E_ATTACK_" + name)
	if text == "" {
		return otherwise
	}
	v, err := parse(text)
	Expect(err).NotTo(HaveOccurred(), name)
	return v
}

// usualSeed and the usual counts make every run of the test suite the same attacks,
// whatever the machine. Hunting for new ones is for other seeds.
const (
	usualSeed    = 5
	usualGateway = 2500
	usualSidecar = 1500
)

func number(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }

// fewest is how many attacks it takes to meet every kind of answer, whatever the
// seed.
const fewest = 500

// enough reads how many attacks there are. A shorter run that is green would have
// proved little, and one that is not might have had bad luck.
func enough(text string) (uint64, error) {
	n, err := number(text)
	if err == nil && n < fewest {
		err = fmt.Errorf("%d attacks do not meet every kind of answer; there must be at least %d", n, fewest)
	}
	return n, err
}

// TestTooFewAttacksAreRefused: a count too small to prove anything is an error that
// says so, and not a run that fails for want of luck.
func TestTooFewAttacksAreRefused(t *testing.T) {
	for text, good := range map[string]bool{"20": false, "499": false, "500": true, "100000": true, "many": false, "-1": false} {
		if _, err := enough(text); (err == nil) != good {
			t.Errorf("%s attacks: %v", text, err)
		}
	}
}

var _ = Describe("an attacker", func() {
	attack := func(at *door, usual uint64) {
		r := &run{
			at:      at,
			seed:    variable("SEED", usualSeed, number),
			only:    variable("ONLY", 0, number),
			attacks: usual,
		}
		if r.only == 0 {
			r.attacks = variable("COUNT", usual, enough)
		}
		AddReportEntry("seed", r.seed)
		GinkgoWriter.Printf("seed %d\n", r.seed)
		r.attack(16) // most of them wait for the proxy
		at.expectAlive(r.again())
		Expect(c.Running()).To(BeTrue(), "the control plane died; %s", r.again())
		Expect(c.Output()).NotTo(ContainSubstring("envoy ended unexpectedly"), r.again())
		framework.ExpectSound()
		GinkgoWriter.Println(r.summary())
		Expect(r.violations()).To(BeEmpty(), "%s\n%s", r.again(), r.summary())
		if r.only == 0 {
			r.expectCoverage()
		}
	}

	It("reaches nothing behind a gateway that a credential of hers does not open", func() { attack(gatewayDoor, usualGateway) })

	It("reaches nothing behind a sidecar that a token of hers does not open", func() { attack(sidecarDoor, usualSidecar) })
})

// Package attacker_test lets one hostile client loose on a gateway: random
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
// MESHGATE_E2E_ATTACK_SEED makes another run or repeats one, MESHGATE_E2E_ATTACK_ONLY one attack of
// it, and MESHGATE_E2E_ATTACK_TIME sets how long it goes on (30s).
package attacker_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// The world of the suite.
var (
	c   *framework.ControlPlane
	api *framework.API
	// envoy is the process id that must never change.
	envoy int
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
	envoy = framework.RunningEnvoy(c.StateDir)
	Expect(envoy).NotTo(BeZero())
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

// usualSeed makes every run of the test suite the same attacks, as far as it gets.
// Hunting for new ones is for other seeds.
const usualSeed = 5

func number(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }

var _ = Describe("an attacker", func() {
	It("reaches nothing that a credential of hers does not open", func() {
		r := &run{
			seed: variable("SEED", usualSeed, number),
			only: variable("ONLY", 0, number),
			time: variable("TIME", 30*time.Second, time.ParseDuration),
		}
		AddReportEntry("seed", r.seed)
		GinkgoWriter.Printf("seed %d\n", r.seed)
		r.attack(16) // most of them wait for the gateway
		Expect(framework.RunningEnvoy(c.StateDir)).To(Equal(envoy), "Envoy was restarted; %s", r.again())
		Expect(framework.Alive(envoy)).To(BeTrue(), "Envoy died; %s", r.again())
		Expect(c.Running()).To(BeTrue(), "the control plane died; %s", r.again())
		Expect(c.Output()).NotTo(ContainSubstring("envoy ended unexpectedly"), r.again())
		framework.ExpectSound()
		GinkgoWriter.Println(r.summary())
		Expect(r.violations()).To(BeEmpty(), "%s\n%s", r.again(), r.summary())
		if r.only == 0 {
			r.expectCoverage()
		}
	})
})

package attacker_test

import (
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/e2e/framework"
)

// usualPorts is how many attacks there are at the ports of the control plane, on all of them
// together.
const usualPorts = 6000

var _ = Describe("the ports of a control plane", func() {
	It("are each attacked", func() {
		cp := framework.NewControlPlane("run").Start()
		doors := portsOf(cp)
		at, err := listening(cp.PID())
		Expect(err).NotTo(HaveOccurred())
		Expect(at).To(ConsistOf(names(doors, (*port).at)), "a listener without a door, or a door without a listener: see portsOf")
		settings := slices.DeleteFunc(names(doors, func(p *port) string { return p.setting }), func(s string) bool { return s == "" })
		Expect(portSettings()).To(ConsistOf(append(settings, elsewhere...)), "a port may be off by default: it needs a door all the same, see portsOf")
		for _, p := range doors {
			Expect(p.speaks()).To(Succeed())
		}
	})

	It("outlast an attacker who speaks badly, slowly or not at all", func() {
		cp := framework.NewControlPlane("run").Start()
		s := &siege{
			ports: portsOf(cp), patience: patience,
			seed: variable("SEED", usualSeed, number), only: variable("ONLY", 0, number), attacks: usualPorts,
		}
		if s.only == 0 {
			s.attacks = variable("COUNT", usualPorts, enough)
		}
		AddReportEntry("seed", s.seed)
		GinkgoWriter.Printf("seed %d\n", s.seed)
		s.expectServed("before")
		before, err := measure(cp.PID(), cp.Diagnostics)
		Expect(err).NotTo(HaveOccurred())

		s.hold()

		Expect(cp.Running()).To(BeTrue(), "the control plane died; %s", s.again())
		framework.ExpectSound()
		s.expectServed("afterwards")
		Expect(framework.Ready(cp.Diagnostics)).To(Succeed(), s.again())
		Expect(mistakes(cp.Output())).To(BeEmpty(), s.again())
		Eventually(func() error {
			after, err := measure(cp.PID(), cp.Diagnostics)
			if err != nil {
				return err
			}
			GinkgoWriter.Printf("before %+v, after %+v\n", before, after)
			return after.since(before)
		}, patience).Should(Succeed(), s.again())
		if s.only == 0 {
			s.expectCoverage()
		}
	})
})

// hold makes all attacks, while others hold on to connections as long as they are let.
func (s *siege) hold() {
	begun := time.Now()
	slow := beset(s.ports)
	s.attack(16) // many of them wait
	quick := time.Since(begun)
	Expect(s.violations()).To(BeEmpty(), "%s\n%s", s.again(), s.summary())
	s.expectServed("while many are slow")
	Expect(slow.end()).To(BeEmpty(), s.again())
	GinkgoWriter.Printf("%s for %d attacks, %s until %d slow ones had ended\n%s\n", quick, s.attacks, time.Since(begun), slow.held, s.summary())
}

// again says how to repeat the run.
func (s *siege) again() string { return (&run{seed: s.seed}).again() }

// mistakes are what a control plane has logged as its own, whoever has read the answer.
func mistakes(log string) (out []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "level=ERROR") {
			out = append(out, line)
		}
	}
	return out
}

// expectServed says that every port serves who behaves.
func (s *siege) expectServed(when string) {
	for _, p := range s.ports {
		Expect(p.canary(s.patience)).To(Succeed(), when)
	}
}

// expectCoverage makes sure that the attacker tried, at every port and in every way.
func (s *siege) expectCoverage() {
	for _, p := range s.ports {
		Expect(s.counts[p.name+" attacked"]).To(BeNumerically(">=", s.attacks/uint64(len(s.ports))), p.name)
	}
	Expect(s.counts).To(And(
		HaveKey("served next"), HaveKey("left"), HaveKey("ended without a word"), HaveKey("ended with a word"),
		HaveKey("answer 200"), HaveKey("answer 400"), HaveKey("answer 401"), HaveKey("answer 403"), HaveKey("answer 404"), HaveKey("answer 405"),
		HaveKey("call answered 200 "+unauthenticated),
	), s.summary())
}

func names(of []*port, name func(*port) string) (out []string) {
	for _, p := range of {
		out = append(out, name(p))
	}
	return out
}

// portSettings are the names of the settings that say where something listens.
func portSettings() (out []string) {
	for _, row := range config.Table {
		if strings.HasSuffix(strings.ToLower(row.Name), "port") {
			out = append(out, row.Name)
		}
	}
	return out
}

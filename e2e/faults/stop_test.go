package faults_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("SIGTERM", func() {
	var (
		c *framework.ControlPlane
		f *framework.Fixture
	)

	// hold sends a request that the upstream holds, and returns its outcome.
	hold := func(token string) <-chan int {
		answered := make(chan int, 1)
		go func() {
			status := 0
			r, err := framework.Do(f.HTTP, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s/hold", c.HTTP, framework.RoutePath),
				http.Header{"Authorization": {"Bearer " + token}}, "")
			if err == nil {
				status = r.Status
			}
			answered <- status
		}()
		Eventually(f.Upstream.Held, soon).Should(Receive())
		return answered
	}

	BeforeEach(func() {
		c = framework.NewControlPlane("standalone", "--drain-timeout", "1h").Start() // a spec ends what it holds
		f = framework.NewFixture(c)
	})

	It("lets requests in flight finish", func() {
		answered := hold(f.MustMint(c.HTTPS))
		c.Signal(syscall.SIGTERM)
		Eventually(c.Output, soon).Should(ContainSubstring("draining"))
		Expect(c.Running()).To(BeTrue())
		close(f.Upstream.Release)
		Eventually(answered, soon).Should(Receive(Equal(200)))
		Expect(c.Exit(soon)).To(Equal(0), c.Output())
		Expect(framework.RunningEnvoy(c.StateDir)).To(BeZero())
	})

	It("ends at once the second time", func() {
		answered := hold(f.MustMint(c.HTTPS))
		pid := framework.RunningEnvoy(c.StateDir)
		c.Signal(syscall.SIGTERM)
		Eventually(c.Output, soon).Should(ContainSubstring("draining"))
		c.Signal(syscall.SIGTERM)
		Expect(c.Exit(soon)).NotTo(Equal(0))
		Expect(c.Output()).To(MatchRegexp(`a second signal ends envoy at once" requests=1 connections=[1-9]`))
		close(f.Upstream.Release)
		Eventually(answered, soon).Should(Receive())
		Expect(framework.Alive(pid)).To(BeFalse(), "Envoy ended with its supervisor")
	})
})

var _ = Describe("SIGHUP", func() {
	// A terminal that closes ends what reads the log, too.
	It("is an orderly end: no Envoy is left behind, also when nobody reads the log any more", func() {
		for command, envoys := range map[string]int{"standalone": 1, "demo": 3} {
			c := framework.NewControlPlane(command)
			read := exec.Command(framework.Binary(), c.Arguments()...)
			out, err := read.StderrPipe()
			Expect(err).NotTo(HaveOccurred())
			Expect(read.Start()).To(Succeed())
			DeferCleanup(func() { _ = read.Process.Kill() })
			var log bytes.Buffer
			lines := bufio.NewScanner(out)
			for ready := 0; ready < envoys && lines.Scan(); {
				log.WriteString(lines.Text() + "\n")
				if strings.Contains(lines.Text(), "proxy is ready") {
					ready++
				}
			}
			Expect(framework.Envoys(c.StateDir)).To(HaveLen(envoys), log.String())
			Expect(out.Close()).To(Succeed())
			Expect(read.Process.Signal(syscall.SIGHUP)).To(Succeed())
			_ = read.Process.Signal(syscall.SIGHUP) // the shell's, after the kernel's
			ended := make(chan error, 1)
			go func() { ended <- read.Wait() }()
			Eventually(ended, soon).Should(Receive(), command)
			Expect(read.ProcessState.Exited()).To(BeTrue(), command+" was ended by a signal: "+read.ProcessState.String())
			Expect(framework.Envoys(c.StateDir)).To(BeEmpty(), command)
		}
	})

	It("ends a control plane without a proxy, and a proxy without a control plane", func() {
		c := framework.NewControlPlane("run").Start()
		g := framework.StartGateway(c, "gateway-2")
		Expect(framework.Envoys(g.StateDir)).To(HaveLen(1))
		g.Signal(syscall.SIGHUP)
		Expect(g.Exit(soon)).To(Equal(0), g.Output())
		Expect(framework.Envoys(g.StateDir)).To(BeEmpty())
		c.Signal(syscall.SIGHUP)
		Expect(c.Exit(soon)).To(Equal(0), c.Output())
	})
})

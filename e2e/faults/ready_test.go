package faults_test

import (
	"fmt"
	"net/http"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// The kernel accepts connections for an Envoy that hangs, so an open port says nothing.
var _ = Describe("/ready of a standalone", func() {
	It("says what is missing of its Envoy", func() {
		c := framework.NewControlPlane("standalone", "--drain-delay", "3s").Start()
		client := &http.Client{Timeout: 10 * time.Second}
		says := func() string {
			r, err := framework.Do(client, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/ready", c.Diagnostics), http.Header{}, "")
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(r.Status, " ", r.Body)
		}
		Eventually(says, soon, often).Should(HavePrefix("200 "))
		envoy := framework.RunningEnvoy(c.StateDir)
		Expect(envoy).NotTo(BeZero())
		Expect(syscall.Kill(envoy, syscall.SIGSTOP)).To(Succeed())
		Eventually(says, soon, often).Should(And(HavePrefix("503 "), ContainSubstring("gateway: envoy away")))
		Expect(syscall.Kill(envoy, syscall.SIGCONT)).To(Succeed())
		Eventually(says, soon, often).Should(HavePrefix("200 "))
		c.Signal(syscall.SIGTERM)
		Eventually(says, framework.ReadyTimeout, 20*time.Millisecond).Should(And(HavePrefix("503 "), ContainSubstring("gateway: draining")))
		Expect(c.Exit(soon)).To(Equal(0), c.Output())
	})
})

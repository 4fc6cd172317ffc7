package faults_test

import (
	"net/http"
	"net/url"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// A gateway that vanished before it heard of another Redis may be alive somewhere, and
// believe the former one: nothing but an operator can say that it is not.
var _ = Describe("A gateway that vanished before Redis was replaced", func() {
	It("keeps revocations unconfirmed until an operator says that it is gone for good", func() {
		redis := framework.StartRedis()
		c := framework.NewControlPlane("run", redis.Flags()...).Start()
		here, lost := framework.StartGateway(c, "here"), framework.StartGateway(c, "lost")
		f := framework.NewFixture(c)
		tokens := []string{f.MustMint(here.HTTPS), f.MustMint(here.HTTPS), f.MustMint(here.HTTPS)}
		for _, g := range []*framework.Gateway{here, lost} {
			for _, token := range tokens {
				Expect(f.Status(g.HTTP, token)).To(Equal(200))
			}
		}
		name := "/nodes/" + url.PathEscape("cp/default/lost")
		Expect(f.Must(200, http.MethodGet, name, nil).Body).To(ContainSubstring(`"filters":{"known":1,"linked":1}`))
		Expect(f.Must(409, http.MethodDelete, name, nil).Body).To(ContainSubstring("is connected"))

		By("losing the host of one gateway, and Redis")
		lost.Kill() // the agent first, so that it cannot say that its Envoy has ended
		for _, pid := range framework.Envoys(lost.StateDir) {
			Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
		}
		redis.Kill()
		redis.Restart() // another server
		Eventually(func() string { return f.Must(200, http.MethodGet, name, nil).Body }, soon, often).
			Should(And(ContainSubstring(`"state":"away"`), ContainSubstring(`"filters":{"known":1,"linked":0}`)))
		Eventually(func() string {
			r, err := framework.Page(c.Diagnostics)
			Expect(err).NotTo(HaveOccurred())
			return r.Body
		}, soon, often).Should(And(
			ContainSubstring("meshgate_redis_up 1"), ContainSubstring(`meshgate_nodes{state="away",type="gateway"} 1`)))
		r := f.Admin(http.MethodDelete, "/oauth2_tokens/"+tokens[0], nil)
		Expect(r.Status).To(Equal(503), r.Body)
		Expect(r.Body).To(ContainSubstring("cp/default/lost"))

		By("saying that it is gone for good")
		f.Must(204, http.MethodDelete, name, nil)
		f.Must(404, http.MethodGet, name, nil)
		f.Must(204, http.MethodDelete, "/oauth2_tokens/"+tokens[1], nil)
		for _, token := range tokens[:2] {
			Expect(f.Status(here.HTTP, token)).To(Equal(401))
		}

		By("starting it all the same, with its old disk")
		lost.Restart()
		for _, token := range tokens[:2] {
			becomesRefused(f, lost, token)
		}
		Expect(f.Status(lost.HTTP, tokens[2])).To(Equal(200))
		f.Must(204, http.MethodDelete, "/oauth2_tokens/"+tokens[2], nil)
		Expect(f.Status(lost.HTTP, tokens[2])).To(Equal(401))
	})
})

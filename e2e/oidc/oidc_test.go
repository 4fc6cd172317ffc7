package oidc_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The answers to whoever may write, may read, has no role, is nobody, and cannot be judged.
var (
	edits   = [4]int{200, 200, 200, 200}
	views   = [4]int{200, 403, 200, 403}
	nothing = [4]int{403, 403, 403, 403}
	refused = [4]int{401, 401, 401, 401}
	unknown = [4]int{503, 503, 503, 503}
)

// soon is long enough for a new key to count: an issuer is asked once in ten seconds.
const soon = time.Minute

var _ = Describe("tokens of an OpenID Connect issuer", func() {
	var (
		trusted *issuer
		w       *world
	)
	BeforeEach(func() {
		trusted = newIssuer("")
		w = newWorld(trusted)
	})
	becomes := func(token string, want [4]int) {
		GinkgoHelper()
		Eventually(func() [4]int { return w.answers(token) }, soon, 100*time.Millisecond).Should(Equal(want), w.Output)
	}

	It("give at both APIs what the roles of their groups give", func() {
		By("its own")
		becomes(trusted.token("ed"), edits) // whoever asks first may not wait for the keys
		Expect(w.answers(trusted.token("vi"))).To(Equal(views))
		Expect(w.answers(trusted.token("nob"))).To(Equal(nothing))
		Expect(w.answers(trusted.token("alien"))).To(Equal(refused), "for another audience")
		Expect(w.answers(trusted.token("late"))).To(Equal(refused), "expired")
		By("those of others")
		Expect(w.answers(newIssuer("").token("ed"))).To(Equal(refused), "another issuer")
		Expect(w.answers(newIssuer(trusted.named).token("ed"))).To(Equal(refused), "another issuer, which takes its name and the id of its key")
	})

	It("count until the keys are fetched because of a new one, and theirs is no longer among them", func() {
		first := trusted.token("ed")
		becomes(first, edits)
		trusted.rotate("2")
		second := trusted.token("vi")
		becomes(second, views)
		Expect(w.answers(first)).To(Equal(edits), "the old key is still published")
		trusted.rotate("3")
		trusted.withdraw("1")
		becomes(trusted.token("ed"), edits)
		Expect(w.answers(first)).To(Equal(refused), "the first key is withdrawn")
		Expect(w.answers(second)).To(Equal(views), "the second key is still published")
	})

	It("count without the issuer if their key is known, and no others do", func() {
		known := trusted.token("ed")
		becomes(known, edits)
		trusted.rotate("2")
		later := trusted.token("ed")
		trusted.Stop()
		Expect(w.answers(known)).To(Equal(edits))
		// Ten seconds after it was asked for its keys the issuer is asked again, and then nobody can judge the token.
		Expect(w.answers(later)).To(HaveEach(BeElementOf(refused[0], unknown[0])))
		By("a control plane that has never seen the issuer's keys")
		w.Stop()
		w.Start()
		Expect(w.answers(known)).To(Equal(unknown))
		trusted.start()
		becomes(later, edits)
		Expect(w.answers(known)).To(Equal(edits))
	})
})

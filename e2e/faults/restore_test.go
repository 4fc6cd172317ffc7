package faults_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/meshgate/meshgate/e2e/framework"
)

// backdate makes the state of a control plane that has ended one that ended so long ago, as
// far as it says whom revocations wait for.
func backdate(stateDir string, by time.Duration) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(stateDir, "meshgate.db"))
	Expect(err).NotTo(HaveOccurred())
	for kind, member := range map[string]string{"filter": "seen", "revocation_time": "earliest"} {
		res, err := db.Exec(fmt.Sprintf(`UPDATE resources SET spec = CAST(json_set(CAST(spec AS TEXT), '$.%[1]s', json_extract(CAST(spec AS TEXT), '$.%[1]s') - ?) AS BLOB) WHERE kind = ?`, member), by.Milliseconds(), kind)
		Expect(err).NotTo(HaveOccurred())
		Expect(res.RowsAffected()).To(BeNumerically(">", 0), kind)
	}
	Expect(db.Close()).To(Succeed())
}

// site is a control plane that was restored beside two gateways. One goes on. The other one
// was restarted after the backup, so its former process, which the backup knows, is over.
type site struct {
	c *framework.ControlPlane
	f *framework.Fixture
	// steady goes on, changed was restarted.
	steady, changed *framework.Gateway
	// tokens were good when the backup was made.
	tokens []string
}

// changedNode is the path of the gateway that was restarted.
var changedNode = "/nodes/" + url.PathEscape("cp/default/changed")

// restore follows docs/operations/backup.md onto a fresh directory. lost says that the
// gateway which is restarted loses its run directory. With an age, the backup is made of a
// control plane that has ended so long ago.
func restore(lost bool, age time.Duration, flags ...string) *site {
	s := &site{c: framework.NewControlPlane("run", flags...).Start()}
	s.steady, s.changed = framework.StartGateway(s.c, "steady"), framework.StartGateway(s.c, "changed")
	s.f = framework.NewFixture(s.c)
	for range 2 {
		token := s.f.MustMint(s.steady.HTTPS)
		s.tokens = append(s.tokens, token)
		for _, g := range []*framework.Gateway{s.steady, s.changed} {
			Expect(s.f.Status(g.HTTP, token)).To(Equal(200))
		}
	}
	file, former := filepath.Join(GinkgoT().TempDir(), "b"), s.c.StateDir
	if age > 0 {
		s.c.Stop()
		backdate(former, age)
	}
	program("backup", file, "--state-dir", former)
	s.changed.Stop()
	if lost {
		Expect(os.RemoveAll(filepath.Join(s.changed.StateDir, "run"))).To(Succeed())
	}
	if age == 0 {
		s.changed.Restart()
		s.c.Kill()
	}
	s.c.StateDir = filepath.Join(GinkgoT().TempDir(), "restored")
	Expect(program("restore", file, "--state-dir", s.c.StateDir, "--encryption-key-file", filepath.Join(former, "encryption.key"))).
		To(ContainSubstring("?former=true"), "what is next")
	s.c.Start()
	if age > 0 {
		s.changed.Restart()
	}
	Eventually(func() map[string]any { return s.node()["filters"].(map[string]any) }, soon, often).Should(HaveKeyWithValue("linked", BeNumerically(">", 0)))
	// Revocations wait for either one, and either may be the first to be back.
	Eventually(links(s.c), soon, often).Should(BeEquivalentTo(2))
	return s
}

func (s *site) node() map[string]any { return s.f.Must(200, http.MethodGet, changedNode, nil).JSON() }

// revokes expects that a revocation holds at both gateways when it is answered.
func (s *site) revokes(token string) {
	s.f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
	for _, g := range []*framework.Gateway{s.steady, s.changed} {
		Expect(s.f.Status(g.HTTP, token)).To(Equal(401))
	}
}

// isTold expects that whoever looks is told that revocations wait, and for whom.
func (s *site) isTold() {
	// The other one counts, too, until it has confirmed what it was told.
	Eventually(func(g Gomega) {
		status, bad, err := readyConditions(s.c.Diagnostics)
		g.Expect(err).NotTo(HaveOccurred())
		Expect(status).To(Equal(200), "it is ready all the same")
		g.Expect(bad["revocations_wait"].Reason).To(Equal("gateways_away"))
		g.Expect(bad["revocations_wait"].Text).To(MatchRegexp(`1 of 3 gateways .*\(cp/default/changed\).*\?former=true`))
	}, soon, often).Should(Succeed())
	Expect(s.f.Must(200, http.MethodGet, "/conditions", nil).Body).To(ContainSubstring("gateways_away"))
	page, err := framework.Page(s.c.Diagnostics)
	Expect(err).NotTo(HaveOccurred())
	Expect(page.Body).To(ContainSubstring(`meshgate_condition{condition="revocations_wait",state="degraded"} 1`))
	p := framework.Start(nil, framework.Binary(), "status", "--address", fmt.Sprintf("http://127.0.0.1:%d", s.c.Admin))
	Expect(p.Exit(time.Minute)).To(Equal(2), p.Output())
	Expect(p.Output()).To(ContainSubstring("revocations_wait"))
}

var _ = Describe("a restore beside gateways that go on", func() {
	DescribeTable("has revocations wait for a former process, until an operator says that it is gone", func(age time.Duration, redis bool) {
		var flags []string
		if redis {
			flags = framework.StartRedis().Flags()
		}
		s := restore(true, age, flags...)
		s.isTold()
		refused := s.f.Admin(http.MethodDelete, "/oauth2_tokens/"+s.tokens[0], nil)
		Expect(refused.Status).To(Equal(503), refused.Body)
		Expect(refused.Body).To(MatchRegexp(`1 of 3 gateways were not seen since the control plane was restored or its Redis was replaced \(cp/default/changed; start each with its run directory or, if it is gone for good, say so with DELETE /nodes/\{name\}, and with \?former=true`))
		s.f.Must(409, http.MethodDelete, changedNode, nil)
		s.f.Must(204, http.MethodDelete, changedNode+"?former=true", nil)
		s.revokes(s.tokens[1])
		for _, g := range []*framework.Gateway{s.steady, s.changed} {
			Expect(s.f.Status(g.HTTP, s.tokens[0])).To(Equal(401))
		}
		Expect(s.node()["filters"]).To(HaveKeyWithValue("known", BeNumerically("==", 1)))
		Eventually(reason(s.c.Diagnostics, "revocations_wait"), soon, often).Should(BeEmpty())
	},
		Entry("of a backup of just now, with Redis", time.Duration(0), true),
		Entry("of a backup of two days ago, with the embedded cache", 48*time.Hour, false),
	)

	DescribeTable("waits for no process of which an agent tells that it has ended", func(age time.Duration, redis bool) {
		var flags []string
		if redis {
			flags = framework.StartRedis().Flags()
		}
		s := restore(false, age, flags...)
		Eventually(func() any { return s.node()["filters"] }, soon, often).Should(HaveKeyWithValue("known", BeNumerically("==", 1)))
		for _, token := range s.tokens {
			s.revokes(token)
		}
		Eventually(reason(s.c.Diagnostics, "revocations_wait"), soon, often).Should(BeEmpty())
	},
		Entry("of a backup of just now, with Redis", time.Duration(0), true),
		Entry("of a backup of two days ago, with the embedded cache", 48*time.Hour, false),
	)
})

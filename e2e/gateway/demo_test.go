package gateway_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("the demo", func() {
	It("tells its story and exits 0, also on a used state directory", func() {
		c := framework.NewControlPlane("demo", "--once")
		for range 2 {
			p := framework.Start(nil, framework.Binary(), c.Arguments()...)
			Expect(p.Exit(2*time.Minute)).To(Equal(0), p.Output())
			out := p.Output()
			Expect(out).To(ContainSubstring("1.39.3"), "the narrator names Envoy's version")
			Expect(out).To(ContainSubstring("X-Consumer-Username: demo"))
			Expect(out).To(ContainSubstring("the very next call with it"))
			Expect(out).NotTo(ContainSubstring("demo-app-secret"), "no secret in any log line")
		}
	})

	It("tells it with a service beside the gateway's Envoy, too", func() {
		c := framework.NewControlPlane("demo", "--once")
		p := framework.Start([]string{"MESHGATE_FILTER_MODE=extauthz"}, framework.Binary(), c.Arguments()...)
		Expect(p.Exit(2*time.Minute)).To(Equal(0), p.Output())
		Expect(strings.Count(p.Output(), "X-Consumer-Username: demo")).To(BeNumerically(">", 1), "at the gateway and behind a sidecar")
	})

	DescribeTable("is ended by Ctrl-C without a warning, as what it begins is", func(command, begun string) {
		c := framework.NewControlPlane(command)
		c.Start()
		Eventually(c.Process.Output, "2m", 50*time.Millisecond).Should(ContainSubstring(begun))
		before := len(c.Process.Output())
		c.Process.Signal(syscall.SIGINT)
		Expect(c.Process.Exit(2*time.Minute)).To(Equal(0), c.Process.Output())
		Expect(c.Process.Output()[before:]).NotTo(Or(ContainSubstring("level=WARN"), ContainSubstring("level=ERROR")))
	}, Entry(nil, "demo", "Ctrl-C ends everything"), Entry(nil, "standalone", "proxy is ready"), Entry(nil, "run", ""))

	It("does what the README says, by copy and paste", func() {
		c := framework.NewControlPlane("demo")
		c.Start()
		script := readmeTranscript(c)
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
		cmd.Dir = framework.Root()
		out, err := cmd.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		text := string(out)
		Expect(text).To(ContainSubstring(`"X-Consumer-Username": "alice"`))
		Expect(text).To(ContainSubstring(`"X-Consumer-Custom-Id": "alice-4711"`))
		Expect(text).To(ContainSubstring(`"X-Credential-Identifier": "alice-app"`))
		Expect(text).To(ContainSubstring(`"X-Authenticated-Scope": "read"`))
		Expect(text).To(ContainSubstring("The access token is invalid or has expired\"}\n401\n"))
		By("the flows of today")
		Expect(text).To(ContainSubstring("&iss=https%3a%2f%2flocalhost%3a"))
		Expect(text).To(ContainSubstring(`"X-Authenticated-Userid": "user-17"`))
		Expect(strings.Count(text, `"refresh_token":"`)).To(Equal(2), text)
		Expect(text).To(ContainSubstring(`{"error":"invalid_grant","error_description":"Invalid code"}`))
		Expect(text).To(ContainSubstring(`{"active":false}`))
		Expect(text).To(ContainSubstring(`"code_challenge_methods_supported":["S256"]`))
	})
})

// readmeTranscript extracts the shell blocks that follow the marker in the README,
// as one session, and points it at the ports of this test.
func readmeTranscript(c *framework.ControlPlane) string {
	data, err := os.ReadFile(filepath.Join(framework.Root(), "README.md"))
	Expect(err).NotTo(HaveOccurred())
	session := ""
	for _, part := range strings.Split(string(data), "<!-- transcript -->\n```sh\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		session += block
	}
	Expect(session).NotTo(BeEmpty(), "the README has a transcript")
	return strings.NewReplacer(
		":8001", ":"+strconv.Itoa(c.Admin), ":8000", ":"+strconv.Itoa(c.HTTP), ":8443", ":"+strconv.Itoa(c.HTTPS),
		".state/", c.StateDir+"/",
	).Replace(session)
}

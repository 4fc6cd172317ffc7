package examples_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// script is all shell blocks of the page, in their order, for the ports and the
// state directory of a demo of this test. At each heading it prints the heading.
func script(demo *framework.ControlPlane) string {
	pairs := []string{":8001", ":" + strconv.Itoa(demo.Admin), ":8443", ":" + strconv.Itoa(demo.HTTPS), ".state/", demo.StateDir + "/"}
	for i, port := range framework.FreePorts(4) {
		for _, before := range []string{":", " "} { // as part of an address or as a word
			pairs = append(pairs, fmt.Sprintf("%s900%d", before, i), before+strconv.Itoa(port))
		}
	}
	return strings.NewReplacer(pairs...).Replace(framework.Guide("docs", "examples", "README.md"))
}

// preamble makes a session end at the first command that fails. A request that
// is answered with an error is none of those, because some are: it is noted in a
// file, by its status and path.
const preamble = `set -euo pipefail
cd "$ROOT"
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
curl() {
  local status=0 word url=
  command curl --fail-with-body "$@" || status=$?
  for word in "$@"; do case $word in http*) url=$word ;; esac; done
  if [ "$status" = 22 ]; then echo "$(echo "$url" | sed 's,.*://[^/]*,,; s,?.*,,')" >>"$REFUSED"; status=0; fi
  return "$status"
}
`

var _ = Describe("docs/examples/README.md", func() {
	It("can be followed by copy and paste", func() {
		demo := framework.NewControlPlane("demo").Start()
		refused := filepath.Join(GinkgoT().TempDir(), "refused")
		env := []string{"GOFLAGS=-buildvcs=false -trimpath", "ROOT=" + framework.Root(), "REFUSED=" + refused}
		p := framework.Start(env, "bash", "-c", preamble+script(demo))
		Expect(p.Exit(patience)).To(Equal(0), p.Output())
		noted, err := os.ReadFile(refused)
		Expect(err).NotTo(HaveOccurred(), "the call with the old token is refused")
		Expect(strings.Fields(string(noted))).To(Equal([]string{"/photos/hello"}), "nothing else is")
		sections := map[string]string{}
		for part := range strings.SplitSeq(p.Output(), "## ") {
			title, text, _ := strings.Cut(part, "\n")
			sections[title] = text
		}
		for _, created := range []string{"/services", "/services/photos/routes", "/routes/photos/plugins", "/consumers", "/consumers/mary/oauth2"} {
			Expect(sections["A route that gives out tokens"]).To(ContainSubstring(created + " 201\n"))
		}
		// Only that it was not up at once may be said there.
		for line := range strings.Lines(sections["The login application"]) {
			Expect(line).To(Or(Equal("\n"), ContainSubstring("Failed to connect")))
		}
		code := sections["Authorisation code"]
		for _, want := range []string{
			`"refresh_token":"`, `"X-Authenticated-Userid": "user-1"`, `"X-Authenticated-Scope": "email"`, `"X-Consumer-Username": "mary"`,
			`"X-Credential-Identifier": "album"`, "The access token is invalid or has expired", "/callback?error=access_denied&state=xyz",
		} {
			Expect(code).To(ContainSubstring(want))
		}
		for _, title := range []string{"A public client", "Passwords, for old clients"} {
			Expect(sections[title]).To(And(ContainSubstring(`"access_token":"`), ContainSubstring(`"refresh_token":"`)), title)
		}
		Expect(sections["WebSocket"]).To(HaveSuffix("hello\nhello\nrefused: 401\n"))
		Expect(sections["gRPC"]).To(HaveSuffix("SERVING\ngrpc: rpc error: code = Unauthenticated desc = Unauthenticated\n"))
		for title, created := range map[string]int{"A route that gives out tokens": 6, "WebSocket": 5, "gRPC": 5} {
			Expect(strings.Count(sections[title], " 201\n")).To(Equal(created), sections[title])
		}
		By("cleaning up")
		Expect(sections["Clean up"]).NotTo(ContainSubstring("message"))
		left := demo.API()
		for _, path := range []string{
			"/routes/photos", "/routes/feed", "/routes/feed-tokens", "/routes/health", "/routes/health-tokens",
			"/services/photos", "/services/feed", "/services/health", "/consumers/mary", "/oauth2/album", "/oauth2/album-phone",
		} {
			left.Must(404, http.MethodGet, path, nil)
		}
	})
})

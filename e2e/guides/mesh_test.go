package guides_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// meshPorts are the ports that the guides name, and the setting that moves those of
// the control plane.
var meshPorts = []struct{ port, setting string }{
	{"5678", "DATA_PLANE_PORT"}, {"5680", "DIAGNOSTICS_PORT"}, {"5681", "MESH_PORT"}, {"5682", "MESH_TLS_PORT"},
	{"8001", "ADMIN_PORT"}, {"8443", "GATEWAY_HTTPS_PORT"}, {"8000", "GATEWAY_HTTP_PORT"},
	{"8444", "ADMIN_TLS_PORT"}, {"5690", "CLOUD_PORT"}, {"5691", "CLOUD_TLS_PORT"}, {"6390", "REDIS_EMBEDDED_PORT"},
	{"9101", ""}, {"9102", ""}, {"8002", ""}, {"9000", ""}, {"9443", ""}, {"9100", ""}, {"9200", ""}, {"9201", ""}, {"9202", ""}, {"9300", ""}, {"9400", ""}, {"9401", ""},
	{"9103", ""}, {"9203", ""}, {"9301", ""}, {"9302", ""}, {"9402", ""}, {"9411", ""}, {"9500", ""}, {"15001", ""}, {"15053", ""},
	// Those of a second control plane, which are flags.
	{"15678", ""}, {"15680", ""}, {"15681", ""}, {"15682", ""}, {"18001", ""}, {"18444", ""}, {"15690", ""}, {"15691", ""}, {"16390", ""},
}

// onFreePorts is the script of a guide on ports of this test, and the environment it
// needs. Guides of meshes write 910$v and 920$v for the ports of its two backends.
func onFreePorts(guide string) (script string, env []string) {
	var pairs []string
	ports := map[string]string{}
	for i, free := range framework.FreePorts(len(meshPorts)) {
		p := meshPorts[i]
		ports[p.port] = strconv.Itoa(free)
		pairs = append(pairs, p.port, ports[p.port])
		if p.setting != "" {
			env = append(env, fmt.Sprintf("MESHGATE_%s=%d", p.setting, free))
		}
	}
	choose := func(prefix string) string {
		return fmt.Sprintf("$([ $v = 1 ] && echo %s || echo %s)", ports[prefix+"1"], ports[prefix+"2"])
	}
	pairs = append(pairs, "910$v", choose("910"), "920$v", choose("920"))
	return strings.NewReplacer(pairs...).Replace(guide), env
}

// meshPreamble makes the session end at the first command that fails. A request that
// is refused is none of those, because some are: it is noted in a file, by the exit
// code of curl (22 for an error of HTTP) and its path. Requests in loops ask for a
// failure themselves, or for silence.
const meshPreamble = `set -eu
cd "$DIR"
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
curl() {
  local status=0 word url=
  case "$1" in -s|-sf) command curl "$@"; return ;; esac
  command curl --fail-with-body "$@" || status=$?
  for word in "$@"; do case $word in http*) url=$word ;; esac; done
  if [ "$status" != 0 ]; then echo "$status $(echo "$url" | sed 's,.*://[^/]*,,; s,?.*,,')" >>"$REFUSED"; fi
}
`

var _ = Describe("docs/mesh.md", func() {
	It("can be followed by copy and paste", func() {
		script, env := onFreePorts(framework.Guide("docs", "mesh.md"))
		dir, err := os.MkdirTemp("/tmp", "guide-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, dir)
		Expect(os.Symlink(filepath.Join(framework.Root(), "bin"), filepath.Join(dir, "bin"))).To(Succeed())
		refused := filepath.Join(dir, "refused")
		// The guide ends what it started itself; the trap is for one that breaks off.
		p := framework.Start(append(env, "DIR="+dir, "REFUSED="+refused), "bash", "-c", meshPreamble+script)
		Expect(p.Exit(patience)).To(Equal(0), p.Output())
		expectSoundLogs(dir)
		noted, err := os.ReadFile(refused)
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Split(strings.TrimSpace(string(noted)), "\n")).To(Equal([]string{
			"52 /",         // without a certificate
			"22 /",         // without a permission
			"22 /", "22 /", // without a token, and with a revoked one
			"52 /",        // STRICT again
			"22 /metrics", // without a permission
		}), "nothing else is refused")
		out := framework.Chapters(p.Output())

		Expect(out["Start"]).To(And(ContainSubstring("201\n"), ContainSubstring("backend v1\n"), ContainSubstring("backend v2\n"),
			ContainSubstring("Empty reply from server"), ContainSubstring("cluster.backend.ssl.handshake: ")))
		Expect(out["Who may call whom"]).To(And(
			MatchRegexp(`"proxies":\{"acknowledged":\d,"waiting":\[\],"rejected":\[\],"away":\{"count":0,"names":\[\]\}\}`),
			ContainSubstring("RBAC: access denied 403\n"), ContainSubstring("\"verdict\": \"refused\",\n  \"status\": 403,"),
			ContainSubstring("the caller may not call this service: no permission is chosen for this inbound"), MatchRegexp(`201\nbackend v[12]\n 200`)))
		Expect(out["A split"]).To(And(MatchRegexp(`1[5-9]\d backend v1`), MatchRegexp(`\d+ backend v2`)))
		Expect(out["Bearer tokens on a service"]).To(And(
			ContainSubstring(`"The access token is missing"} 401`), MatchRegexp(`backend v\d\n 200`),
			ContainSubstring(`"The access token is invalid or has expired"} 401`)))
		Expect(out["From plain text to STRICT"]).To(And(MatchRegexp(`200\nbackend v1\n200\n`), ContainSubstring("Empty reply from server")))
		for _, phase := range []string{"phase=trusting", "phase=signing", `phase=""`} {
			Expect(out["A new root"]).To(ContainSubstring(phase))
		}
		Expect(out["Tokens of proxies"]).To(And(ContainSubstring("the dataplane token was revoked"), HaveSuffix("Key 1 of dataplane-tokens is deleted.")))
		Expect(strings.Count(out["Without the control plane"], "200\n")).To(BeNumerically(">=", 2), out["Without the control plane"])
		Expect(out["Without the control plane"]).To(ContainSubstring("nothing listens at --cp-address"))
		Expect(out["Metrics"]).To(And(ContainSubstring("envoy_server_live 1\nshop_orders_total 3\nmeshgate_scrape_up{application=\"orders\"} 1\n"), MatchRegexp(`(?m)^403$`), HaveSuffix("\n200")))
		Expect(out["What is going on"]).To(And(ContainSubstring(`"connectTime"`), ContainSubstring(`"certificateExpirationTime"`)))
	})
})

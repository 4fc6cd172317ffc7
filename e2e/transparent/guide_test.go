package transparent_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
	"github.com/meshgate/meshgate/e2e/netns"
)

// standIn stands in for sudo, and for the user that the guide makes. The proxy runs in the
// background as that user, and ends with the session.
const standIn = `set -eu
cd "$DIR"
trap 'kill $(jobs -p); wait' EXIT
trap 'exit 0' TERM
sudo() {
  case $1 in
  useradd) ;;
  -u) shift 2; exec setpriv --reuid="$PROXY" --regid="$PROXY" --clear-groups "$@" ;;
  *) "$@" ;;
  esac
}
`

// shown returns the Dataplane of docs/transparent.md.
func shown() (dataplane framework.Document) {
	data, err := os.ReadFile(filepath.Join(framework.Root(), "docs", "transparent.md"))
	Expect(err).NotTo(HaveOccurred())
	_, rest, found := strings.Cut(string(data), "\n```json\n")
	Expect(found).To(BeTrue())
	text, _, _ := strings.Cut(rest, "```")
	Expect(json.Unmarshal([]byte(text), &dataplane)).To(Succeed())
	return dataplane
}

var _ = Describe("docs/transparent.md", func() {
	It("can be followed by copy and paste", func() {
		cable, err := netns.New()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cable.Close)
		serve("stranger", netns.There4+":81", cable.There)

		c := framework.NewControlPlane("run").Start()
		api := c.API()
		dataplane := shown()
		api.Put("meshes", framework.Document{"type": "Mesh", "name": dataplane["mesh"]})
		api.Put("dataplanes", dataplane)

		dir, err := os.MkdirTemp("/tmp", "guide-") // a path that fits a socket
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, dir)
		Expect(os.Chmod(dir, 0o755)).To(Succeed()) // the proxy is another user
		authority, err := os.ReadFile(c.CAFile())
		Expect(err).NotTo(HaveOccurred())
		token := api.DataplaneToken(dataplane["mesh"].(string), dataplane["name"].(string), "24h")
		for name, text := range map[string]string{"ca.pem": string(authority), "web-1.token": token} {
			Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
		}

		user, state := strconv.Itoa(proxy), filepath.Join(dir, "state")
		script := strings.NewReplacer("https://cp.example:5678", fmt.Sprintf("https://127.0.0.1:%d", c.Data), "/var/lib/meshgate", state,
			"-o meshgate -g meshgate", "-o "+user+" -g "+user, "--proxy-user meshgate", "--proxy-user "+user).Replace(framework.Guide("docs", "transparent.md"))
		env := []string{"DIR=" + dir, "PROXY=" + user, "PATH=" + filepath.Dir(framework.Binary()) + ":" + os.Getenv("PATH")}
		p := framework.Start(env, "bash", "-c", standIn+script+"\nwait\n")
		DeferCleanup(func() {
			command("transparent-proxy", "uninstall")
			p.Stop()
		})
		Eventually(p.Output, framework.ReadyTimeout, "20ms").Should(ContainSubstring(strings.TrimSpace(framework.Transcript("docs", "transparent.md")[""])), "what the page shows")
		Eventually(func() string { return asWorkload(netns.There4 + ":81") }, framework.ReadyTimeout, "50ms").Should(Equal("stranger called by "+netns.Here4), p.Output)
		stats, err := framework.EnvoyAdmin(state, "/stats")
		Expect(err).NotTo(HaveOccurred())
		Expect(framework.ParseStats(stats)[passed]).To(Equal(1), "it came through the proxy")
	})
})

package gateway_test

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

var _ = Describe("an Envoy of its own that asks the authorization service", Ordered, func() {
	var c *framework.ControlPlane
	var f *framework.Fixture
	var service *framework.Process
	var port int

	BeforeAll(func() {
		c = framework.NewControlPlane("standalone").Start()
		f = framework.NewFixture(c)
		free := framework.FreePorts(3)
		port = free[0]
		dir := GinkgoT().TempDir()
		f.WriteGatewayToken("own-1", filepath.Join(dir, "token"))
		settings := filepath.Join(dir, "settings.json")
		Expect(os.WriteFile(settings, fmt.Appendf(nil, `{"control_plane":{"address":"127.0.0.1:%d","ca_file":%q,"token_file":%q,"node":"cp/default/own-1"},"cache":{}}`,
			c.Data, c.CAFile(), filepath.Join(dir, "token")), 0o600)).To(Succeed())
		socket := filepath.Join(dir, "authz.sock")
		service = framework.Start(nil, framework.Binary(), "authz", "--listen", "unix://"+socket, "--settings", settings,
			"--status-listen", "127.0.0.1", "--status-port", strconv.Itoa(free[1]))
		framework.WaitServing(fmt.Sprintf("127.0.0.1:%d", free[1]), service.Output)
		startOwnEnvoy(f, dir, socket, free[0], free[2])
	})

	It("accepts tokens of the control plane, and says whose they are", func() {
		r, err := f.Call(port, f.MustMint(c.HTTPS))
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(200), r.Body)
		Expect(r.Body).To(ContainSubstring(`"X-Consumer-Username":["alice"]`))
		Expect(r.Body).NotTo(ContainSubstring("Authorization"), "the chain hides it")
	})

	It("refuses a token from the moment on at which its deletion is answered", func() {
		for range 50 {
			token := f.MustMint(c.HTTPS)
			Expect(f.Status(port, token)).To(Equal(200))
			f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
			Expect(f.Status(port, token)).To(Equal(401))
		}
	})

	It("lets nobody pass while the service is away", func() {
		token := f.MustMint(c.HTTPS)
		Expect(f.Status(port, token)).To(Equal(200))
		service.Kill()
		Expect(f.Status(port, token)).To(Equal(503))
		Expect(f.Status(port, "")).To(Equal(503))
	})
})

// startOwnEnvoy runs the Envoy of docs/examples/authz with the fixture's service and plugin. The
// ports are those of its listener and of its administration.
func startOwnEnvoy(f *framework.Fixture, dir, socket string, port, admin int) {
	text, err := os.ReadFile(filepath.Join(framework.Root(), "docs", "examples", "authz", "envoy.yaml"))
	Expect(err).NotTo(HaveOccurred())
	id := f.Must(200, http.MethodGet, "/services/api", nil).JSON()["id"].(string)
	config := strings.NewReplacer("0.0.0.0", "127.0.0.1", "port_value: 8000", "port_value: "+strconv.Itoa(port), "/run/meshgate/authz.sock", socket,
		"port_value: 9901", "port_value: "+strconv.Itoa(admin), "port_value: 8080", "port_value: "+f.Upstream.Port(),
		"0b9d7c4e-2f4b-4d0a-9a52-8f0a6f1f3c11", id, "2c1f8e7a-5b6d-4c3e-8f90-a1b2c3d4e5f6", f.Plugin).Replace(string(text))
	file := filepath.Join(dir, "envoy.yaml")
	Expect(os.WriteFile(file, []byte(config), 0o600)).To(Succeed())
	envoy := framework.Start(nil, filepath.Join(framework.Root(), ".tools", "envoy"), "-c", file, "--disable-hot-restart", "--concurrency", "1", "-l", "warning")
	framework.WaitServing(fmt.Sprintf("127.0.0.1:%d", port), envoy.Output)
}

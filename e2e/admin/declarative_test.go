package admin_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("a gateway that runs from a file", func() {
	var file string
	BeforeEach(func() { file = filepath.Join(GinkgoT().TempDir(), "gateway.yaml") })
	write := func(text string) {
		ExpectWithOffset(1, os.WriteFile(file, []byte("_format_version: \"3.0\"\n"+text), 0o600)).To(Succeed())
	}
	refused := func(c *framework.ControlPlane) string {
		p := framework.Start(nil, framework.Binary(), c.Arguments()...)
		ExpectWithOffset(1, p.Exit(time.Minute)).To(Equal(2), p.Output())
		return p.Output()
	}

	It("serves what the file says, again after a restart with another file, and takes no writes", func() {
		up := framework.StartUpstream()
		service := func(path string) string {
			return fmt.Sprintf("services:\n  - name: api\n    url: http://127.0.0.1:%s\n    routes:\n      - name: api\n        paths: [%s]\n", up.Port(), path)
		}
		write(service("/old"))
		c := framework.NewControlPlane("standalone", "--gateway-declarative", file).Start()
		status := func(path string) func() int {
			return func() int {
				r, err := framework.Do(c.API().HTTP, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", c.HTTP, path), http.Header{}, "")
				if err != nil {
					return 0
				}
				return r.Status
			}
		}
		Expect(status("/old/x")()).To(Equal(http.StatusOK))
		api := c.API()
		id := api.Must(http.StatusOK, http.MethodGet, "/services/api", nil).JSON()["id"]
		r := api.Must(http.StatusMethodNotAllowed, http.MethodPatch, "/services/api", map[string]any{"port": 1})
		Expect(r.JSON()["message"]).To(ContainSubstring("come from a declarative file"))

		c.Stop()
		write(service("/new"))
		c.Start()
		Expect(status("/new/x")()).To(Equal(http.StatusOK))
		Expect(status("/old/x")()).To(Equal(http.StatusNotFound))
		Expect(c.API().Must(http.StatusOK, http.MethodGet, "/services/api", nil).JSON()["id"]).To(Equal(id))
	})

	It("does not begin with a plugin that needs a database", func() {
		write("plugins:\n  - name: oauth2\n")
		out := refused(framework.NewControlPlane("run", "--gateway-declarative", file, "--store-type", "memory"))
		Expect(out).To(ContainSubstring(file + ":3: plugins[0].name: the plugin issues tokens and codes and needs a database"))
	})

	It("names every mistake with its line", func() {
		write("servcies: []\nconsumers:\n  - usrname: bob\n")
		out := refused(framework.NewControlPlane("run", "--gateway-declarative", file, "--store-type", "memory"))
		Expect(out).To(ContainSubstring(file + `:2: servcies: unknown key; did you mean "services"?`))
		Expect(out).To(ContainSubstring(file + `:4: consumers[0].usrname: unknown key; did you mean "username"?`))
	})

	It("does not take what was written through the API", func() {
		c := framework.NewControlPlane("run").Start()
		c.API().Must(http.StatusCreated, http.MethodPost, "/consumers", map[string]any{"username": "precious"})
		c.Stop()
		write("consumers: []\n")
		c.Args = []string{"--gateway-declarative", file}
		out := refused(c)
		Expect(strings.TrimSpace(out)).To(ContainSubstring("1 entities that did not come from a declarative file (consumer/"))
		c.Args = nil
		c.Start().API().Must(http.StatusOK, http.MethodGet, "/consumers/precious", nil)
	})
})

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

var _ = Describe("the administration API's token", func() {
	It("is needed on every port once it is set, and opens them to the network", func() {
		const token = "an-administrators-token"
		file := filepath.Join(GinkgoT().TempDir(), "token")
		Expect(os.WriteFile(file, []byte(token+"\n"), 0o600)).To(Succeed())
		c := framework.NewControlPlane("run", "--admin-listen", "0.0.0.0", "--admin-token-file", file).Start()
		api := c.API()
		for _, base := range []string{fmt.Sprintf("http://127.0.0.1:%d", c.Admin), fmt.Sprintf("https://localhost:%d", c.AdminTLS)} {
			for _, path := range []string{"/", "/consumers", "/openapi.json", "/nowhere"} {
				r, err := framework.Do(api.HTTP, http.MethodGet, base+path, http.Header{}, "")
				Expect(err).NotTo(HaveOccurred())
				Expect(r.Status).To(Equal(http.StatusUnauthorized), base+path)
				Expect(r.Header.Get("WWW-Authenticate")).To(Equal("Bearer"))
				Expect(r.JSON()).To(HaveKey("message"))
			}
			r, err := framework.Do(api.HTTP, http.MethodPost, base+"/consumers",
				http.Header{"Authorization": {"Bearer " + token}, "X-Forwarded-For": {"192.0.2.7"}, "Content-Type": {"application/json"}}, `{"custom_id":"`+base+`"}`)
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Status).To(Equal(http.StatusCreated), r.Body)
		}
		Expect(c.Output()).NotTo(ContainSubstring(token))
	})

	It("is what an address of the network needs", func() {
		c := framework.NewControlPlane("run", "--admin-listen", "0.0.0.0")
		p := framework.Start(nil, framework.Binary(), c.Arguments()...)
		Expect(p.Exit(time.Minute)).To(Equal(2), p.Output())
		Expect(strings.TrimSpace(p.Output())).To(HaveSuffix("admin.listen: must be a loopback address unless admin.token or admin.tokenFile is set, access.roles is set or access.anonymous is false, because this API would have no authentication"))
	})
})

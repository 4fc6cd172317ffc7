package faults_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// unpack puts what was recorded of a state directory into another one.
func unpack(file, dir string) {
	GinkgoHelper()
	f, err := os.Open(file)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	Expect(err).NotTo(HaveOccurred())
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		Expect(err).NotTo(HaveOccurred())
		if h.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(dir, filepath.Base(h.Name)), data, 0o600)).To(Succeed())
	}
}

// meshDocument reads a resource of the mesh API.
func meshDocument(c *framework.ControlPlane, path string) map[string]any {
	GinkgoHelper()
	r, err := framework.Do(http.DefaultClient, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", c.Mesh, path), nil, "")
	Expect(err).NotTo(HaveOccurred())
	Expect(r.Status).To(Equal(200), "%s: %s", path, r.Body)
	return r.JSON()
}

// Each was recorded from a program that was killed (testdata/states/record), so the
// newest writes are in the log of the database only.
var _ = Describe("a state directory of an earlier version", func() {
	recorded, err := filepath.Glob(filepath.Join("testdata", "states", "*.tar.gz"))
	if err != nil || len(recorded) == 0 {
		panic("nothing was recorded")
	}
	for _, file := range recorded {
		It("opens, and all of it is there: "+strings.TrimSuffix(filepath.Base(file), ".tar.gz"), func() {
			c := framework.NewControlPlane("standalone")
			unpack(file, c.StateDir)
			c.Start()
			api, upstream := c.API(), framework.StartUpstream()

			By("the gateway's entities, and its tokens")
			Expect(api.Must(200, "GET", "/consumers/alice", nil).JSON()).To(HaveKeyWithValue("custom_id", "alice-4711"))
			api.Must(200, "PATCH", "/services/orders", map[string]any{"url": "http://127.0.0.1:" + upstream.Port()})
			api.Converged()
			status := func(token string) int {
				r, err := framework.Do(http.DefaultClient, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/orders", c.HTTP), http.Header{"Authorization": {"Bearer " + token}}, "")
				Expect(err).NotTo(HaveOccurred())
				return r.Status
			}
			Eventually(func() int { return status("good-token") }, soon, often).Should(Equal(200))
			Expect(status("revoked-token")).To(Equal(401))
			issued, err := framework.Do(framework.TrustingClient(c.CAFile()), http.MethodPost, fmt.Sprintf("https://localhost:%d/orders/oauth2/token", c.HTTPS),
				http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, "grant_type=client_credentials&client_id=alice-app&client_secret=alice-secret&scope=read")
			Expect(err).NotTo(HaveOccurred())
			Expect(issued.Status).To(Equal(200), issued.Body)
			Expect(status(issued.JSON()["access_token"].(string))).To(Equal(200))

			By("the mesh, its secrets and its trust")
			Expect(meshDocument(c, "/meshes/shop/secrets/note")).To(HaveKeyWithValue("data", "bm90ZWQ="))
			permission, err := json.Marshal(meshDocument(c, "/meshes/shop/traffic-permissions/some"))
			Expect(err).NotTo(HaveOccurred())
			Expect(string(permission)).To(ContainSubstring(`"mesh.io/service":"backend"`))
			workload, err := os.ReadFile(filepath.Join(c.StateDir, "web-1.token"))
			Expect(err).NotTo(HaveOccurred())
			sidecar := framework.NewSidecar(c, "shop", "web-1", "")
			sidecar.WriteToken(string(workload))
			sidecar.Start().WaitReady()
		})
	}
})

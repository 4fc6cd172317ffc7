package mesh_test

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// bare starts the Envoy of a member without an agent and without the filter's
// library, from the bootstrap that the control plane gives out.
func (w *world) bare(m *member) { w.bareAt(m, w.cp.Data, w.cp.CAFile()) }

// bareAt is bare where proxies reach the data-plane server at another port, with a
// certificate of another authority.
func (w *world) bareAt(m *member, port int, caFile string) {
	name := m.doc["name"].(string)
	m.doc["networking"].(map[string]any)["admin"] = map[string]any{"port": framework.FreePorts(1)[0]}
	w.Put("dataplanes", m.doc)
	body, err := json.Marshal(map[string]any{"mesh": shop, "name": name, "dataplaneToken": w.DataplaneToken(shop, name, "1h")})
	Expect(err).NotTo(HaveOccurred())
	own, err := os.ReadFile(w.cp.CAFile())
	Expect(err).NotTo(HaveOccurred())
	ca, err := os.ReadFile(caFile)
	Expect(err).NotTo(HaveOccurred())
	pool := x509.NewCertPool()
	Expect(pool.AppendCertsFromPEM(ca)).To(BeTrue())
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	}}
	r, err := framework.Do(client, http.MethodPost, fmt.Sprintf("https://127.0.0.1:%d/bootstrap", port), http.Header{}, string(body))
	Expect(err).NotTo(HaveOccurred())
	Expect(r.Status).To(Equal(http.StatusOK), r.Body)
	file := filepath.Join(GinkgoT().TempDir(), "envoy.yaml")
	pinned := base64.StdEncoding.EncodeToString(own)
	Expect(r.Body).To(ContainSubstring(pinned))
	boot := strings.ReplaceAll(r.Body, pinned, base64.StdEncoding.EncodeToString(ca))
	Expect(os.WriteFile(file, []byte(boot), 0o600)).To(Succeed())
	envoy := cmp.Or(otherEnvoy(), filepath.Join(framework.Root(), ".tools", "envoy"))
	p := framework.Start([]string{"ENVOY_DYNAMIC_MODULES_SEARCH_PATH=" + GinkgoT().TempDir()}, envoy, "-c", file, "--disable-hot-restart", "--concurrency", "1", "-l", "warn")
	framework.WaitServing(m.inbound(), p.Output)
}

var _ = Describe("an Envoy without the filter's library", core, func() {
	It("serves HTTP, and refuses all of it where tokens are demanded", func() {
		w := newWorld("STRICT")
		backend := w.describe("backend-1", tags{service: "backend"})
		w.bare(backend)
		web := w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web)
		answers(web.to("backend"), 200)
		w.Put("meshtokenauths", framework.Document{
			"type": "MeshTokenAuth", "mesh": shop, "name": "tokens",
			"spec": map[string]any{
				"targetRef": map[string]any{"kind": "MeshService", "name": "backend"},
				"from":      []any{map[string]any{"targetRef": map[string]any{"kind": "Mesh"}, "default": map[string]any{"config": map[string]any{"global_credentials": true}}}},
			},
		})
		w.Converged()
		Expect(called(web.to("backend"))).To(Equal(503))
		Expect(strings.Join(w.overview("backend-1").Errors, "\n")).To(ContainSubstring("lacks the filter"))
	})
})

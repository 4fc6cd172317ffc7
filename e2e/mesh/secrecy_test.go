package mesh_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// Secrets of a mesh are planted on each way that leads in, and looked for on
// each way that leads out.
var _ = Describe("a secret of a mesh", func() {
	It("is in no log, no file, no dump and no metric", func() {
		const plain, global = "canary-mesh-secret-4Kd8sW1qZx", "canary-global-secret-7Yb2nL5vTc"
		w := newWorld("", "--log-level", "debug", "--diagnostics-pprof", "true")
		certificate, key := framework.MeshRoot(shop)
		put := func(path, kind, name, data string) {
			doc := map[string]any{"type": kind, "name": name, "data": base64.StdEncoding.EncodeToString([]byte(data))}
			if kind == "Secret" {
				doc["mesh"] = shop
			}
			r := w.Mesh(http.MethodPut, path+name, doc)
			Expect(r.Status).To(BeNumerically("<", 300), r.Body)
		}
		put("/meshes/"+shop+"/secrets/", "Secret", "plain", plain)
		put("/meshes/"+shop+"/secrets/", "Secret", "own-cert", certificate)
		put("/meshes/"+shop+"/secrets/", "Secret", "own-key", key)
		put("/global-secrets/", "GlobalSecret", "global", global)
		w.Put("meshes", framework.Document{"type": "Mesh", "name": shop, "mtls": map[string]any{
			"enabledBackend": "own", "backends": []any{map[string]any{"name": "own", "type": "provided", "conf": map[string]any{
				"cert": map[string]any{"secret": "own-cert"}, "key": map[string]any{"secret": "own-key"},
			}}},
		}})
		backend := w.start("backend-1", tags{service: "backend"})
		web := w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web, backend)
		answers(web.to("backend"), 200)
		refused := w.Mesh(http.MethodPut, "/meshes/"+shop+"/secrets/plain", map[string]any{"type": "Secret", "mesh": shop, "name": "other", "data": plain})
		Expect(refused.Status).To(Equal(400))
		refusal400 := refused.Body
		block, _ := pem.Decode([]byte(key))
		canaries := map[string]string{
			"secret": plain, "global secret": global, "key of the authority": strings.Split(key, "\n")[1],
			"key of the authority, raw": string(block.Bytes[36:68]), "token of a proxy": web.Token(),
		}
		none := func(where, text string) {
			GinkgoHelper()
			Expect(text).NotTo(BeEmpty(), where)
			for what, secret := range canaries {
				for _, form := range framework.PlainForms(secret) {
					Expect(strings.Contains(text, form)).To(BeFalse(), "%s: %s", where, what)
				}
			}
		}
		none("a refusal", refusal400)
		none("the log of the control plane", w.cp.Output())
		for _, m := range []*member{web, backend} {
			none("the log of "+m.Name, m.Output())
			for _, path := range []string{"/config_dump?include_eds", "/stats", "/certs"} {
				text, err := m.Admin(path)
				Expect(err).NotTo(HaveOccurred())
				none(m.Name+" "+path, text)
			}
		}
		for _, path := range []string{"/metrics", "/ready", "/debug/pprof/goroutine?debug=2"} {
			r, err := framework.Do(http.DefaultClient, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", w.cp.Diagnostics, path), nil, "")
			Expect(err).NotTo(HaveOccurred())
			none(path, r.Body)
		}
		for _, path := range []string{"/meshes", "/meshes/" + shop, "/meshes/" + shop + "/dataplanes/web-1/xds", "/meshes/" + shop + "/dataplanes+insights", "/policies"} {
			none(path, w.Mesh(http.MethodGet, path, nil).Body)
		}
		for name, dir := range map[string]string{"the control plane": w.cp.StateDir, "web-1": web.StateDir} {
			Expect(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() || path == web.TokenFile() {
					return err
				}
				text, err := os.ReadFile(path)
				if err == nil && len(text) > 0 {
					none(name+": "+filepath.Base(path), string(text))
				}
				return err
			})).To(Succeed())
		}
	})
})

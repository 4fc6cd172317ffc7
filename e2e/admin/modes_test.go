package admin_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("a control plane that leaves writes to others", func() {
	DescribeTable("refuses them at every path, and serves proxies",
		func(dataplanes, policies bool, args ...string) {
			c := framework.NewControlPlane("run").Start()
			web := framework.Document{"type": "Dataplane", "mesh": "default", "name": "web-1", "networking": map[string]any{
				"address": "127.0.0.1", "inbound": []any{map[string]any{"port": framework.FreePorts(1)[0], "servicePort": framework.FreePorts(1)[0], "tags": map[string]any{"mesh.io/service": "web"}}},
			}}
			c.API().Put("dataplanes", web)
			c.Stop()
			c.Args = args
			c.Start()
			api := c.API()
			status := func(open bool, otherwise int) int {
				if open {
					return otherwise
				}
				return http.StatusMethodNotAllowed
			}
			const item = "/meshes/default/dataplanes/web-1"
			timeout := framework.Document{"type": "Timeout", "mesh": "default", "name": "mine", "conf": map[string]any{"connectTimeout": "5s"},
				"sources": []any{map[string]any{"match": map[string]any{"mesh.io/service": "*"}}}, "destinations": []any{map[string]any{"match": map[string]any{"mesh.io/service": "*"}}}}
			for _, query := range []string{"?dryRun=true", ""} {
				Expect(api.Mesh(http.MethodPut, item+query, web).Status).To(Equal(status(dataplanes, http.StatusOK)))
				Expect(api.Mesh(http.MethodPut, "/meshes/default/timeouts/mine"+query, timeout).Status).To(BeElementOf(status(policies, http.StatusOK), status(policies, http.StatusCreated)))
			}
			Expect(api.Mesh(http.MethodDelete, item+"?dryRun=true", nil).Status).To(Equal(status(dataplanes, http.StatusOK)))
			Expect(api.Mesh(http.MethodPost, "/keys/dataplane-tokens/rotate", map[string]any{"mesh": "default"}).Status).To(Equal(status(policies, http.StatusOK)))
			if !dataplanes {
				Expect(api.Mesh(http.MethodDelete, item, nil).Status).To(Equal(http.StatusMethodNotAllowed))
				Expect(api.Mesh(http.MethodDelete, "/nodes/default.web-1", nil).Status).To(Equal(http.StatusMethodNotAllowed))
			}
			Expect(api.Mesh(http.MethodGet, item, nil).Status).To(Equal(http.StatusOK))

			file := filepath.Join(GinkgoT().TempDir(), "mesh.yaml")
			Expect(os.WriteFile(file, fmt.Appendf(nil, `{type: Timeout, mesh: default, name: theirs, sources: [{match: {mesh.io/service: "*"}}], destinations: [{match: {mesh.io/service: "*"}}], conf: {connectTimeout: 5s}}
---
{type: Dataplane, mesh: default, name: web-2, networking: {address: 127.0.0.1, inbound: [{port: %d, tags: {mesh.io/service: web}}]}}
`, framework.FreePorts(1)[0]), 0o600)).To(Succeed())
			said := tool(c, 1, "mesh", "sync", file)
			for path, open := range map[string]bool{"/meshes/default/timeouts/theirs": policies, "/meshes/default/dataplanes/web-2": dataplanes} {
				want := http.StatusNotFound
				if open {
					want = http.StatusOK
				}
				Expect(api.Mesh(http.MethodGet, path, nil).Status).To(Equal(want), path+"\n"+said)
			}
			for label, open := range map[string]bool{"Timeout theirs": policies, "Dataplane web-2": dataplanes} {
				if !open {
					Expect(said).To(MatchRegexp(`%s of mesh default: .*'meshgate mesh sync'`, label))
				}
			}

			framework.NewSidecar(c, "default", "web-1", "").Start().WaitReady()
		},
		Entry("above several zones", false, true, "--mode", "global"),
		Entry("in a zone", true, false, "--mode", "zone"),
		Entry("that is only read", false, false, "--mesh-read-only", "true"),
	)
})

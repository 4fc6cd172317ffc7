// Package walk_test walks through the mesh API with curl as an operator's script does, row by row
// of what is documented, against a control plane whose proxies are real Envoys, and prints each row.
package walk_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

const patience = 4 * time.Minute

func TestWalk(t *testing.T) {
	RegisterFailHandler(Fail)
	framework.RunSuite(t, "walk")
}

var _ = AfterEach(framework.ExpectSound)

// tags are those of what offers a service over HTTP.
func tags(service string) map[string]any {
	return map[string]any{"mesh.io/service": service, "mesh.io/protocol": "http"}
}

// file writes a file, and returns its path.
func file(name, text string) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), name)
	Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	return path
}

// populate makes the mesh and starts the proxies that the walk expects.
func populate(cp *framework.ControlPlane) {
	api, mesh := cp.API(), "walk"
	ports := framework.FreePorts(7)
	dataplane := func(name string, networking map[string]any) {
		networking["address"] = "127.0.0.1"
		api.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": mesh, "name": name, "networking": networking})
	}
	inbound := func(port int, service string) []any {
		return []any{map[string]any{"port": port, "servicePort": framework.StartWorkload(service).Port, "tags": tags(service)}}
	}
	api.Put("meshes", framework.Document{"type": "Mesh", "name": mesh, "mtls": map[string]any{
		"enabledBackend": "ca", "backends": []any{map[string]any{"name": "ca", "type": "builtin"}},
	}})
	dataplane("web-1", map[string]any{
		"inbound":  inbound(ports[0], "web"),
		"outbound": []any{map[string]any{"port": ports[1], "tags": map[string]any{"mesh.io/service": "backend"}}},
	})
	dataplane("backend-1", map[string]any{"inbound": inbound(ports[2], "backend")})
	dataplane("door-1", map[string]any{"gateway": map[string]any{"type": "BUILTIN", "tags": map[string]any{"mesh.io/service": "door"}}})
	selectors := []any{map[string]any{"match": map[string]any{"mesh.io/service": "door"}}}
	api.Put("meshgateways", framework.Document{"type": "MeshGateway", "mesh": mesh, "name": "door", "selectors": selectors, "conf": map[string]any{
		"listeners": []any{map[string]any{"port": ports[3], "protocol": "HTTP"}},
	}})
	api.Put("meshgatewayroutes", framework.Document{"type": "MeshGatewayRoute", "mesh": mesh, "name": "to-backend", "selectors": selectors, "conf": map[string]any{
		"http": map[string]any{"rules": []any{map[string]any{
			"matches":  []any{map[string]any{"path": map[string]any{"match": "PREFIX", "value": "/"}}},
			"backends": []any{map[string]any{"weight": 1, "destination": map[string]any{"mesh.io/service": "backend"}}},
		}}},
	}})
	ingress := file("in.yaml", fmt.Sprintf(
		"type: ZoneIngress\nname: in\nzone: "+zone+"\nnetworking: {address: 127.0.0.1, port: %d, advertisedAddress: 127.0.0.1, advertisedPort: %[1]d}\n", ports[4]))
	egress := file("out.yaml", fmt.Sprintf("type: ZoneEgress\nname: out\nnetworking: {address: 127.0.0.1, port: %d}\n", ports[5]))
	gone := framework.NewEgress(cp, zone, "gone", file("gone.yaml", fmt.Sprintf("type: ZoneEgress\nname: gone\nnetworking: {address: 127.0.0.1, port: %d}\n", ports[6])))
	for _, p := range []*framework.Sidecar{
		framework.NewSidecar(cp, mesh, "web-1", ""),
		framework.NewSidecar(cp, mesh, "backend-1", ""),
		framework.NewSidecar(cp, mesh, "door-1", "", "--proxy-type", "gateway"),
		framework.NewIngress(cp, zone, "in", ingress),
		framework.NewEgress(cp, zone, "out", egress),
		gone,
	} {
		p.Start().WaitReady()
	}
	api.Converged()
	gone.Kill() // a proxy that is asked to end takes its document with it
	// How often a subscription was written, and that it ended, is left out until it was, which is after ten seconds at most.
	for path, written := range map[string]string{
		"/zoneingresses+insights/in": "generation", "/zoneegressoverviews/out": "generation", "/zoneegressoverviews/gone": "disconnectTime",
	} {
		Eventually(func() string { return api.Mesh(http.MethodGet, path, nil).Body }, patience, 100*time.Millisecond).Should(ContainSubstring(strconv.Quote(written)))
	}
}

// planted are secrets in the settings of the control plane that native starts.
var planted = []string{"token-of-the-walk", "password-of-the-walk"}

// native starts a control plane whose meshes an orchestrator writes, and does not wait for it.
func native() *framework.ControlPlane {
	settings := file("native.yaml", fmt.Sprintf("environment: kubernetes\nadmin: {token: %s}\nredis: {nodeURL: 'redis://reader:%s@127.0.0.1:1'}\n", planted[0], planted[1]))
	cp := framework.NewControlPlane("run", "--config", settings)
	cp.Launch()
	return cp
}

// zone is the one that a control plane has without settings.
const zone = "default"

var _ = Describe("the mesh API", func() {
	It("answers every row of what is documented", func() {
		beside := native()
		// The proxy that is gone is asked for at the end, which may be long after.
		cp := framework.NewControlPlane("run", "--dataplane-remove-after", "1h").Start()
		populate(cp)
		beside.WaitReady()
		certificate, key := framework.MeshRoot("walk-3")
		p := framework.Start([]string{
			"ROOT=" + file("root.pem", certificate), "ROOTKEY=" + file("root.key", key), "ZONE=" + zone,
			fmt.Sprintf("SPARE=%d", framework.FreePorts(1)[0]), "PLANTED=" + strings.Join(planted, " "),
		}, "bash", filepath.Join(framework.Root(), "e2e", "walk", "mesh-api.sh"), cp.API().MeshURL(""), beside.API().MeshURL(""))
		ended := p.Exit(patience)
		fmt.Print(p.Output())
		Expect(ended).To(BeZero(), "a row failed: see above")
	})
})

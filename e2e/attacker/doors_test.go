package attacker_test

import (
	"crypto/x509"
	"fmt"
	"net/http"

	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// door is where the attacker comes to: a proxy, or a listener of a control plane.
type door struct {
	name    string
	targets []*target
	// plain and secure are ports of ip, 0 where there is none: without TLS and with it.
	ip            string
	plain, secure int
	// socket is a Unix socket in the place of plain; empty where there is none.
	socket string
	// roots vouch for who answers at secure.
	roots func() (*x509.CertPool, error)
	// host is what requests call the door; next is the path of a follow-up request.
	host, next string
	// http1 says that HTTP/2 is not spoken; documents, that there are handlers that read some.
	http1, documents bool
	// behind is the target at which a follow-up request arrives.
	behind *target
	// issues says that tokens may be had there.
	issues bool
	// state is the folder of the process that runs the Envoy, envoy its process
	// id, which must never change.
	state string
	envoy int
}

// exampleHost is what clients of the proxies call them.
const exampleHost = "gateway.example"

// The doors of proxies. They share consumers, applications, tokens and keys.
var gatewayDoor, sidecarDoor *door

// inMesh is a service of a mesh behind a sidecar that demands the tokens of the
// target that its name is taken from.
var inMesh = &target{name: "sidecar", opens: tokens, plugins: []plugin{oauth2(nil)}}

// openGateway is the door to all routes.
func openGateway() *door {
	return &door{
		name: "gateway", targets: targets, ip: "127.0.0.1", plain: c.HTTP, secure: c.HTTPS, roots: trusting(c.CAFile()),
		host: exampleHost, next: "/guarded/follow-up", behind: named("guarded"), issues: true,
		state: c.StateDir, envoy: framework.RunningEnvoy(c.StateDir),
	}
}

// openSidecar starts a sidecar with MeshTokenAuth. Its inbound speaks plain HTTP,
// so that every byte is the attacker's own.
func openSidecar() *door {
	inMesh.arrived = startUpstream(inMesh)
	inMesh.like = named("guarded")
	port := framework.FreePorts(1)[0]
	api.Put("meshes", framework.Document{"type": "Mesh", "name": "attacked"})
	plugins := api.Must(200, http.MethodGet, "/services/guarded/plugins", nil).JSON()["data"].([]any)
	api.Put("meshtokenauths", framework.Document{
		"type": "MeshTokenAuth", "mesh": "attacked", "name": "tokens",
		"spec": map[string]any{
			"targetRef": map[string]any{"kind": "MeshService", "name": inMesh.name},
			"from": []any{map[string]any{
				"targetRef": map[string]any{"kind": "Mesh"},
				"default":   map[string]any{"plugin": map[string]any{"controlPlane": "default", "id": plugins[0].(map[string]any)["id"]}},
			}},
		},
	})
	api.Put("dataplanes", framework.Document{
		"type": "Dataplane", "mesh": "attacked", "name": "sidecar-1",
		"networking": map[string]any{"address": "127.0.0.2", "inbound": []any{map[string]any{
			"port": port, "servicePort": inMesh.arrived.port(),
			"tags": map[string]any{"mesh.io/service": inMesh.name, "mesh.io/protocol": "http"},
		}}},
	})
	s := framework.NewSidecar(c, "attacked", "sidecar-1", "").Start()
	s.WaitReady()
	framework.WaitServing(fmt.Sprintf("127.0.0.2:%d", port), s.Output)
	api.Converged()
	return &door{
		name: "sidecar", targets: []*target{inMesh}, ip: "127.0.0.2", plain: port, host: exampleHost, next: "/sidecar/follow-up", behind: inMesh, state: s.StateDir, envoy: framework.RunningEnvoy(s.StateDir),
	}
}

// address is where the door is.
func (d *door) address(secure bool) string {
	if secure {
		return fmt.Sprintf("%s:%d", d.ip, d.secure)
	}
	return fmt.Sprintf("%s:%d", d.ip, d.plain)
}

// encrypts says whether a conversation is over TLS, where the door leaves a choice.
func (d *door) encrypts(wish bool) bool {
	return d.secure != 0 && (wish || d.plain == 0 && d.socket == "")
}

// expectAlive says that nobody has died at the door.
func (d *door) expectAlive(again string) {
	Expect(framework.RunningEnvoy(d.state)).To(Equal(d.envoy), "the Envoy of the %s was restarted; %s", d.name, again)
	Expect(framework.Alive(d.envoy)).To(BeTrue(), "the Envoy of the %s died; %s", d.name, again)
}

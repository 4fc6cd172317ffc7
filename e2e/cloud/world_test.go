package cloud_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// toReceivers lets audit logs be sent to this machine.
var toReceivers = []string{"--audit-allowed-networks", "127.0.0.1"}

// command runs a command of the program on the control plane's machine.
func command(c *framework.ControlPlane, args ...string) string {
	GinkgoHelper()
	out, err := exec.Command(framework.Binary(), append(args, "--state-dir", c.StateDir)...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	return strings.TrimSpace(string(out))
}

// world is a portal whose audit log goes to a receiver.
type world struct {
	c      *framework.ControlPlane
	http   *http.Client
	token  string
	siem   *receiver
	portal string
	// destination is the path of the destination.
	destination string
}

const password = "correct horse"

// newWorld makes the portal with its developer, with a token that is made on the machine.
func newWorld(c *framework.ControlPlane) *world {
	GinkgoHelper()
	w := &world{c: c, http: framework.TrustingClient(c.CAFile()), siem: newReceiver()}
	w.token = command(c, "token", "create", "--name", "e2e", "--role", "admin")
	w.siem.trust(w.signs())
	id := w.do(200, "POST", "/v2/audit-log-destinations", map[string]any{
		"name": "siem", "endpoint": w.siem.url(), "authorization": credential, "log_format": "json", "skip_ssl_verification": true,
	})["id"].(string)
	w.destination = "/v2/audit-log-destinations/" + id
	w.portal = w.do(201, "POST", "/v2/portals", map[string]any{"name": "docs"})["id"].(string)
	w.do(200, "PATCH", w.of("/audit-log-webhook"), map[string]any{"enabled": true, "audit_log_destination_id": id})
	w.do(201, "POST", w.of("/developers"), map[string]any{"email": "ada@example.com", "full_name": "Ada", "password": password})
	return w
}

// signs is the published key that signs now.
func (w *world) signs() string {
	GinkgoHelper()
	keys := w.do(200, "GET", "/v2/audit-log-webhook/jwks.json", nil)["keys"].([]any)
	return keys[0].(map[string]any)["x"].(string)
}

// of is a path of the portal.
func (w *world) of(path string) string { return "/v2/portals/" + w.portal + path }

// at is the address of a path of the cloud API.
func (w *world) at(path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", w.c.Cloud, path) }

// ask sends a document with a token.
func (w *world) ask(token, method, path string, doc any) *framework.Response {
	GinkgoHelper()
	header, body := http.Header{"Authorization": {"Bearer " + token}}, []byte{}
	if doc != nil {
		header.Set("Content-Type", "application/json")
		body, _ = json.Marshal(doc)
	}
	r, err := framework.Do(w.http, method, w.at(path), header, string(body))
	Expect(err).NotTo(HaveOccurred())
	return r
}

// do expects a status.
func (w *world) do(status int, method, path string, doc any) map[string]any {
	GinkgoHelper()
	r := w.ask(w.token, method, path, doc)
	Expect(r.Status).To(Equal(status), method+" "+path+": "+r.Body)
	if r.Body == "" {
		return nil
	}
	return r.JSON()
}

// login lets the developer log in with a browser of a name, by which the event is known.
func (w *world) login(agent, password string) int {
	GinkgoHelper()
	r, err := framework.Do(w.http, "POST", w.at("/portals/"+w.portal+"/api/v2/developer/authenticate"),
		http.Header{"Content-Type": {"application/json"}, "User-Agent": {agent}}, fmt.Sprintf(`{"username":"ada@example.com","password":%q}`, password))
	Expect(err).NotTo(HaveOccurred())
	return r.Status
}

// logins lets the developer log in some times, and returns the names of the browsers.
func (w *world) logins(from, to int) (agents []string) {
	GinkgoHelper()
	for n := from; n < to; n++ {
		agents = append(agents, fmt.Sprintf("browser-%d", n))
		Expect(w.login(agents[len(agents)-1], password)).To(Equal(204))
	}
	return agents
}

// status is that of the webhook.
func (w *world) status() map[string]any {
	GinkgoHelper()
	return w.do(200, "GET", w.of("/audit-log-webhook/status"), nil)
}

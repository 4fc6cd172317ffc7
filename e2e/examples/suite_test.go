// Package examples_test runs what docs/examples says, and the clients of others
// against a gateway: golang.org/x/oauth2, Authlib, gRPC and WebSocket.
package examples_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

func TestExamples(t *testing.T) {
	RegisterFailHandler(Fail)
	framework.RunSuite(t, "examples")
}

var _ = AfterEach(framework.ExpectSound)

// The world of every spec.
var (
	c *framework.ControlPlane
	f *framework.Fixture
)

var _ = BeforeSuite(func() {
	install := exec.Command(filepath.Join(framework.Root(), ".ci", "install-clients"))
	out, err := install.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	c = framework.NewControlPlane("standalone").Start()
	f = framework.NewFixture(c)
})

// python runs a script of the checkout in the environment with the clients.
func python(env []string, script string, args ...string) string {
	cmd := exec.Command(filepath.Join(framework.Root(), ".tools", "clients", "bin", "python"), append([]string{filepath.Join(framework.Root(), script)}, args...)...)
	cmd.Env = append(os.Environ(), append(env, "PYTHONDONTWRITEBYTECODE=1")...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	ExpectWithOffset(1, err).NotTo(HaveOccurred(), "%s: %s%s", script, out, problems.String())
	return strings.TrimSpace(string(out))
}

// build builds a program of the examples.
func build(name string) string {
	binary := filepath.Join(GinkgoT().TempDir(), name)
	cmd := exec.Command("go", "build", "-o", binary, "./docs/examples/"+name)
	cmd.Dir = framework.Root()
	out, err := cmd.CombinedOutput()
	ExpectWithOffset(1, err).NotTo(HaveOccurred(), string(out))
	return binary
}

// protected is a service with a route and an oauth2 plugin, and an application
// of alice; all have one name. The path is the name, too.
type protected struct {
	name, provisionKey string
	clientID, secret   string
	redirectURI        string
}

// protect makes one, with further settings of the plugin.
func protect(name string, config map[string]any) *protected {
	p := &protected{name: name, clientID: name + "-app", secret: name + "-secret", redirectURI: "http://127.0.0.1:9/callback"}
	port, err := strconv.Atoi(f.Upstream.Port())
	Expect(err).NotTo(HaveOccurred())
	f.Must(201, http.MethodPost, "/services", map[string]any{"name": name, "host": "127.0.0.1", "port": port})
	f.Must(201, http.MethodPost, "/services/"+name+"/routes", map[string]any{"name": name, "paths": []string{"/" + name}, "protocols": []string{"https"}})
	full := map[string]any{"enable_authorization_code": true, "enable_client_credentials": true, "scopes": []string{"email", "phone"}}
	for k, v := range config {
		full[k] = v
	}
	doc := f.Must(201, http.MethodPost, "/routes/"+name+"/plugins", map[string]any{"name": "oauth2", "config": full}).JSON()
	p.provisionKey, _ = doc["config"].(map[string]any)["provision_key"].(string)
	Expect(p.provisionKey).NotTo(BeEmpty())
	p.application(p.clientID, map[string]any{"client_secret": p.secret})
	f.Converged()
	return p
}

// application adds an application of alice.
func (p *protected) application(clientID string, more map[string]any) {
	doc := map[string]any{"name": clientID, "client_id": clientID, "redirect_uris": []string{p.redirectURI}}
	for k, v := range more {
		doc[k] = v
	}
	f.Must(201, http.MethodPost, "/consumers/alice/oauth2", doc)
}

// url is an address of the route.
func (p *protected) url(path string) string {
	return fmt.Sprintf("https://localhost:%d/%s%s", c.HTTPS, p.name, path)
}

// call calls the route; the upstream answers with what it was told.
func (p *protected) call(client *http.Client) *framework.Response {
	r, err := framework.Do(client, http.MethodGet, p.url("/x"), nil, "")
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return r
}

// login starts the login application for a route, with the user ada, and
// returns its base URL.
func (p *protected) login() string {
	port := framework.FreePorts(1)[0]
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	config, err := json.Marshal(map[string]any{
		"listen": address, "gateway": p.url(""), "ca_file": c.CAFile(), "admin": f.AdminURL(""), "provision_key": p.provisionKey, "password_flow": true,
		"users": []any{map[string]any{"name": "ada", "password": "correct horse", "id": "user-1"}},
	})
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(GinkgoT().TempDir(), "login.json")
	Expect(os.WriteFile(file, config, 0o600)).To(Succeed())
	app := framework.Start(nil, build("login"), "-config", file)
	framework.WaitServing(address, app.Output)
	return "http://" + address
}

// browse is what a person does with a link: log in, and agree or not. It returns
// where that leads.
func browse(link, decision string) string {
	return python(nil, "docs/examples/login/browser.py", link, "ada", "correct horse", decision)
}

// told is what the upstream says that it was told.
func told(r *framework.Response) http.Header {
	ExpectWithOffset(1, r.Status).To(Equal(200), r.Body)
	var got struct{ Headers http.Header }
	ExpectWithOffset(1, json.NewDecoder(bytes.NewReader([]byte(r.Body))).Decode(&got)).To(Succeed(), r.Body)
	return got.Headers
}

// patience bounds one example.
const patience = 5 * time.Minute

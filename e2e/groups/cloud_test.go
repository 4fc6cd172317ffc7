package groups_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// cloud is a client of the cloud API with a personal access token.
type cloud struct {
	*framework.API
	c     *framework.ControlPlane
	token string
}

func newCloud(c *framework.ControlPlane) *cloud { return &cloud{c.API(), c, accessToken(c, "e2e")} }

// accessToken makes the personal access token of an administrator on the control plane's machine.
func accessToken(c *framework.ControlPlane, name string, more ...string) string {
	GinkgoHelper()
	out, err := exec.Command(framework.Binary(), append([]string{"token", "create", "--name", name, "--role", "admin", "--state-dir", c.StateDir}, more...)...).Output()
	Expect(err).NotTo(HaveOccurred(), string(out))
	return strings.TrimSpace(string(out))
}

// do sends a document and expects a status.
func (c *cloud) do(status int, method, path string, doc any) map[string]any {
	GinkgoHelper()
	header, body := http.Header{"Authorization": {"Bearer " + c.token}}, []byte{}
	if doc != nil {
		header.Set("Content-Type", "application/json")
		body, _ = json.Marshal(doc)
	}
	r, err := framework.Do(c.HTTP, method, fmt.Sprintf("http://127.0.0.1:%d%s", c.c.Cloud, path), header, string(body))
	Expect(err).NotTo(HaveOccurred())
	Expect(r.Status).To(Equal(status), method+" "+path+": "+r.Body)
	if v := r.Header.Get("X-Mesh-Revision"); v != "" {
		c.Revision = v
	}
	if r.Body == "" {
		return nil
	}
	return r.JSON()
}

// answer sends a request without a body and returns the status; 0 if there was no answer.
func (c *cloud) answer(method, path string) int {
	r, err := framework.Do(c.HTTP, method, fmt.Sprintf("http://127.0.0.1:%d%s", c.c.Cloud, path), http.Header{"Authorization": {"Bearer " + c.token}}, "")
	if err != nil {
		return 0
	}
	return r.Status
}

// plane makes a control plane and returns its id.
func (c *cloud) plane(name, kind string) string {
	GinkgoHelper()
	return c.do(201, "POST", "/v2/control-planes", map[string]any{"name": name, "cluster_type": kind})["id"].(string)
}

// group is the path of a group.
func group(id string) string { return "/v2/control-planes/" + id }

// entities is the path of the entities of a control plane.
func entities(id string) string { return "/v2/control-planes/" + id + "/core-entities" }

func members(ids ...string) any {
	list := []any{}
	for _, id := range ids {
		list = append(list, map[string]any{"id": id})
	}
	return map[string]any{"members": list}
}

// publish gives a control plane a protected service at a path, with an application.
func (c *cloud) publish(id, name string, up *framework.Upstream) {
	GinkgoHelper()
	port, err := strconv.Atoi(up.Port())
	Expect(err).NotTo(HaveOccurred())
	at := entities(id)
	c.do(201, "POST", at+"/services", map[string]any{"name": name, "host": "127.0.0.1", "port": port})
	c.do(201, "POST", at+"/services/"+name+"/routes", map[string]any{"name": name, "paths": []string{"/" + name}})
	c.do(201, "POST", at+"/services/"+name+"/plugins", map[string]any{"name": "oauth2", "config": map[string]any{
		"enable_client_credentials": true, "scopes": []string{"email"}, "token_expiration": 3600,
	}})
	c.apply(id, name)
}

// apply makes a consumer of a control plane with an application, both of one name.
func (c *cloud) apply(id, name string) {
	GinkgoHelper()
	at := entities(id)
	c.do(201, "POST", at+"/consumers", map[string]any{"username": name})
	c.do(201, "POST", at+"/consumers/"+name+"/oauth2", map[string]any{
		"name": name, "client_id": name, "client_secret": name + "-secret", "redirect_uris": []string{"https://app.example/cb"},
	})
}

// mint obtains a token of an application that [cloud.publish] has made.
func (c *cloud) mint(g *framework.Gateway, name string) string {
	GinkgoHelper()
	return c.minted(g, name, name, name+"-secret")
}

// minted obtains a token of an application at a gateway.
func (c *cloud) minted(g *framework.Gateway, path, client, secret string) string {
	GinkgoHelper()
	r := c.grant(g, path, client, secret)
	Expect(r.Status).To(Equal(200), r.Body)
	token, _ := r.JSON()["access_token"].(string)
	return token
}

// grant asks a gateway for a token.
func (c *cloud) grant(g *framework.Gateway, path, client, secret string) *framework.Response {
	GinkgoHelper()
	r, err := framework.Do(c.HTTP, "POST", fmt.Sprintf("https://localhost:%d/%s/oauth2/token", g.HTTPS, path),
		http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, "grant_type=client_credentials&scope=email&client_id="+client+"&client_secret="+secret)
	Expect(err).NotTo(HaveOccurred())
	return r
}

// status calls a route with a token; 0 if there was no answer.
func (c *cloud) status(g *framework.Gateway, name, token string) int {
	r, err := framework.Do(c.HTTP, "GET", fmt.Sprintf("http://127.0.0.1:%d/%s/x", g.HTTP, name), http.Header{"Authorization": {"Bearer " + token}}, "")
	if err != nil {
		return 0
	}
	return r.Status
}

// gateway is a gateway of a control plane that is named by its name or id.
func (c *cloud) gateway(name, plane string) *framework.Gateway {
	GinkgoHelper()
	g := framework.NewGateway(c.c, name, "--control-plane", plane)
	r, err := c.issue(name, plane)
	Expect(err).NotTo(HaveOccurred())
	Expect(r.Status).To(Equal(200), r.Body)
	Expect(os.WriteFile(filepath.Join(g.StateDir, "token"), []byte(r.Body), 0o600)).To(Succeed())
	return g
}

// issue asks for the token of a gateway.
func (c *cloud) issue(name, plane string) (*framework.Response, error) {
	return framework.Do(c.HTTP, "POST", c.MeshURL("/tokens/gateway"), http.Header{"Content-Type": {"application/json"}},
		fmt.Sprintf(`{"name":%q,"controlPlane":%q,"validFor":"24h"}`, name, plane))
}

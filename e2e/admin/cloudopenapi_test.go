package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// entities are paths of the cloud API at which the administration API answers, whose own document is tested.
var entities = regexp.MustCompile(`/core-entities/|/runtime_groups/`)

// cloudClient calls the cloud API as an administrator.
type cloudClient struct{ url, token string }

// do expects a status.
func (c cloudClient) do(status int, method, path string, doc any) map[string]any {
	GinkgoHelper()
	body, err := json.Marshal(doc)
	Expect(err).NotTo(HaveOccurred())
	r, err := framework.Do(http.DefaultClient, method, c.url+path, http.Header{"Authorization": {"Bearer " + c.token}, "Content-Type": {"application/json"}}, string(body))
	Expect(err).NotTo(HaveOccurred())
	Expect(r.Status).To(Equal(status), method+" "+path+": "+r.Body)
	return r.JSON()
}

// created makes a resource of a name that is used once, and returns its id.
func (c cloudClient) created(status int, path string, doc map[string]any) string {
	GinkgoHelper()
	out := c.do(status, http.MethodPost, path, doc)
	if item, ok := out["item"].(map[string]any); ok {
		out = item
	}
	return out["id"].(string)
}

// resources makes one of each sort, and returns their ids by what of a path stands for them. Requests about groups
// name a group. keep are those that are there already, so that what belongs to another resource is made in it.
func (c cloudClient) resources(name string, keep map[string]string) map[string]string {
	GinkgoHelper()
	const portals, planes = "/v2/portals/{portalId}", "/v2/control-planes/{id}"
	out := map[string]string{
		portals:                           c.created(201, "/v2/portals", map[string]any{"name": name}),
		planes:                            c.created(201, "/v2/control-planes", map[string]any{"name": name}),
		"/v2/audit-log-destinations/{id}": c.created(200, "/v2/audit-log-destinations", map[string]any{"name": name, "endpoint": "https://siem.invalid/", "authorization": "x", "log_format": "json"}),
		"/v2/personal-access-tokens/{id}": c.created(201, "/v2/personal-access-tokens", map[string]any{"name": name, "role": "viewer"}),
		planes + "/group-":                c.created(201, "/v2/control-planes", map[string]any{"name": name + "-group", "cluster_type": "CLUSTER_TYPE_CONTROL_PLANE_GROUP"}),
	}
	at := out
	if keep != nil {
		at = keep
	}
	cert, _ := framework.Certificate(name + ".example")
	out[portals+"/developers/{developerId}"] = c.created(201, "/v2/portals/"+at[portals]+"/developers", map[string]any{"email": name + "@example.com", "full_name": name})
	out[planes+"/dp-client-certificates/{certificateId}"] = c.created(201, "/v2/control-planes/"+at[planes]+"/dp-client-certificates", map[string]any{"cert": cert})
	out["/portals/{portalId}"] = at[portals]
	return out
}

var _ = Describe("the OpenAPI document of the cloud API", func() {
	It("is kept by every answer to random requests, and offers no member that is refused as unknown", func(ctx SpecContext) {
		c := framework.NewControlPlane("run", "--store-type", "memory").Start()
		token, err := exec.CommandContext(ctx, framework.Binary(), "token", "create", "--name", "random", "--role", "admin", "--state-dir", c.StateDir).Output()
		Expect(err).NotTo(HaveOccurred())
		cloud := cloudClient{fmt.Sprintf("http://127.0.0.1:%d", c.Cloud), strings.TrimSpace(string(token))}
		kept := cloud.resources("kept", nil)
		existing, err := json.Marshal(kept)
		Expect(err).NotTo(HaveOccurred())
		spare, err := json.Marshal(cloud.resources("spare", kept))
		Expect(err).NotTo(HaveOccurred())
		wanted := operations(cloud.do(200, http.MethodGet, document, nil), entities)
		Expect(wanted).To(BeNumerically(">", 60))
		player{
			url: cloud.url, wanted: wanted,
			env:  []string{"HOOKS=offered", "BODIES=content_type_conformance,response_schema_conformance,offered", "EXISTING=" + string(existing), "SPARE=" + string(spare)},
			more: []string{"-H", "Authorization: Bearer " + cloud.token, "--exclude-path-regex", entities.String()},
		}.keeps(ctx)
		cloud.do(200, http.MethodGet, "/v2/portals/"+kept["/v2/portals/{portalId}"], nil)
		cloud.do(200, http.MethodGet, "/v2/control-planes/"+kept["/v2/control-planes/{id}"], nil)
	}, NodeTimeout(10*time.Minute))
})

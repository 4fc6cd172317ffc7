package mesh_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// node is what this suite reads of GET /nodes.
type node struct {
	Name, Type, State, Reason string
	InStep                    bool
	Versions                  struct{ Envoy, Module, Agent string }
	Trouble                   struct{ Reason string }
	Revisions                 struct{ Desired, Sent, Acknowledged int }
	CertificateExpires        time.Time
	TokenExpires              time.Time
	Filters                   struct{ Known, Linked int }
	Conditions                []struct{ Name, Reason, Text string }
}

// nodes waits until those that are listed are as they should be, woken by the answers.
func (w *world) nodes(what string, as func(map[string]node) bool) map[string]node {
	GinkgoHelper()
	mark, deadline := "", time.Now().Add(patience)
	for {
		r := w.Mesh(http.MethodGet, "/nodes?wait=5s&since="+url.QueryEscape(mark), nil)
		Expect(r.Status).To(Equal(http.StatusOK), r.Body)
		var list struct {
			Items []node
			Mark  string
		}
		Expect(json.Unmarshal([]byte(r.Body), &list)).To(Succeed())
		all := map[string]node{}
		for _, n := range list.Items {
			all[n.Name] = n
		}
		if as(all) {
			return all
		}
		Expect(time.Now()).To(BeTemporally("<", deadline), what+": "+r.Body)
		mark = list.Mark
	}
}

// status runs meshgate status on either API.
func (w *world) status(args ...string) (code int, output string) {
	GinkgoHelper()
	out, err := exec.Command(framework.Binary(), append([]string{"status"}, args...)...).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // as it is returned
		return exit.ExitCode(), string(out)
	}
	Expect(err).NotTo(HaveOccurred())
	return 0, string(out)
}

var _ = Describe("who is there", func() {
	It("says that an Envoy hangs, though its agent is connected, and that it answers again", func() {
		w := newWorld("STRICT")
		admin := fmt.Sprintf("--address=http://127.0.0.1:%d", w.cp.Admin)
		m := w.start("web-1", tags{service: "web"})
		w.ready(m)
		well := func(all map[string]node) bool { n := all["shop.web-1"]; return n.InStep && n.Trouble.Reason == "" }
		w.nodes("it is in step", well)
		pid := framework.RunningEnvoy(m.StateDir)
		Expect(syscall.Kill(pid, syscall.SIGSTOP)).To(Succeed())
		DeferCleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
		w.nodes("its agent says that it hangs", func(all map[string]node) bool {
			n := all["shop.web-1"]
			return n.State == "connected" && !n.InStep && strings.Contains(n.Trouble.Reason, "does not answer its agent")
		})
		code, output := w.status(admin)
		Expect(code).To(Equal(2), output)
		Expect(output).To(MatchRegexp(`^WRONG +SINCE +WHOM +WHY\nenvoy away +20\S+ +shop\.web-1 +its Envoy does not answer its agent`))
		Expect(framework.Scrape(w.cp.Diagnostics).Sum("meshgate_node_envoys_away")).To(BeEquivalentTo(1))
		Expect(syscall.Kill(pid, syscall.SIGCONT)).To(Succeed())
		w.nodes("it answers again", well)
		code, output = w.status(admin)
		Expect(code).To(BeZero(), output)
	})

	It("says that sidecars are refused and why, and that a gateway is gone, and forgets who is gone for good", func() {
		w := newWorld("STRICT")
		admin := fmt.Sprintf("--address=http://127.0.0.1:%d", w.cp.Admin)
		names := []string{"web-1", "web-2", "web-3"}
		var members []*member
		for _, name := range names {
			members = append(members, w.start(name, tags{service: name}))
		}
		w.ready(members...)
		gateway := framework.StartGateway(w.cp, "edge")
		all := w.nodes("everybody is in step", func(all map[string]node) bool {
			n := 0
			for _, of := range all {
				if of.InStep {
					n++
				}
			}
			return n == 4
		})
		web, edge := all["shop.web-1"], all["cp/default/edge"]
		Expect(web.Type + " " + edge.Type).To(Equal("sidecar gateway"))
		for _, n := range all {
			Expect(n.Versions.Envoy).To(MatchRegexp(`^1\.[0-9]+\.[0-9]+$`))
			Expect(n.Versions.Module).NotTo(BeEmpty())
			Expect(n.CertificateExpires).To(BeTemporally(">", time.Now()))
			Expect(n.TokenExpires).To(BeTemporally(">", time.Now()))
			Expect(n.Revisions.Acknowledged).To(Equal(n.Revisions.Desired))
		}
		code, out := w.status(admin)
		Expect(code).To(Equal(0), out)
		Expect(out).To(ContainSubstring("4 nodes: 4 connected (0 refuse configuration, 0 are behind), 0 away, 0 away and refused"))

		By("deleting the key that their tokens are signed with")
		Expect(w.Mesh(http.MethodDelete, "/meshes/"+shop+"/secrets/dataplane-token-signing-key-"+shop+"-1?force=true", nil).Status).To(Equal(http.StatusOK))
		all = w.nodes("all sidecars are refused", func(all map[string]node) bool {
			for _, name := range names {
				if all["shop."+name].State != "refused" {
					return false
				}
			}
			return true
		})
		for _, name := range names {
			Expect(all["shop."+name].Reason).To(And(ContainSubstring("signing key"), ContainSubstring("does not know")))
		}
		doc := w.Get("/revisions/" + w.Revision)
		Expect(doc["proxies"]).To(HaveKeyWithValue("away", And(
			HaveKeyWithValue("count", BeNumerically("==", 3)), HaveKeyWithValue("names", ConsistOf("shop.web-1", "shop.web-2", "shop.web-3")))))
		metrics, err := framework.Page(w.cp.Diagnostics)
		Expect(err).NotTo(HaveOccurred())
		Expect(metrics.Body).To(And(
			ContainSubstring(`meshgate_nodes{state="refused",type="sidecar"} 3`), ContainSubstring(`meshgate_nodes{state="connected",type="gateway"} 1`),
			MatchRegexp(`meshgate_node_refusals_total\{known="true"\} [1-9]`)))
		Expect(w.Get("/meshes/" + shop + "/dataplanes/web-1/_overview")["errors"]).To(ContainElement(ContainSubstring("refused since")))
		for _, where := range []string{admin, "--address=" + w.MeshURL("")} {
			code, out = w.status(where)
			Expect(code).To(Equal(2), out)
			Expect(out).To(MatchRegexp(`(?m)^refused +\S+Z +shop\.web-1, shop\.web-2, shop\.web-3 +.*signing key`), "one outage is one line")
			Expect(out).To(MatchRegexp(`(?m)^shop\.web-2 +sidecar +refused .*signing key`))
			Expect(out).To(ContainSubstring("4 nodes: 1 connected (0 refuse configuration, 0 are behind), 0 away, 3 away and refused"))
		}

		By("killing the gateway")
		gateway.Kill()
		w.nodes("the gateway is away", func(all map[string]node) bool {
			e := all["cp/default/edge"]
			return e.State == "away"
		})
		_, out = w.status(admin, "-o", "json")
		Expect(out).To(ContainSubstring(`"summary":{"connected":0,"away":1,"refused":3,"silent":0,"rejecting":0,"behind":0}`))

		By("saying that it is gone for good")
		name := "/nodes/" + url.PathEscape("cp/default/edge")
		Expect(w.Admin(http.MethodDelete, name, nil).Status).To(Equal(http.StatusNoContent))
		Expect(w.Mesh(http.MethodGet, name, nil).Status).To(Equal(http.StatusNotFound))
		w.cp.Stop()
		w.cp.Start()
		Expect(w.Mesh(http.MethodGet, name, nil).Status).To(Equal(http.StatusNotFound), "also after a restart")
		all = w.nodes("the others are listed after a restart", func(all map[string]node) bool { return all["shop.web-1"].State == "refused" })
		Expect(all).To(HaveLen(3))

		By("coming back all the same")
		gateway.Restart()
		w.nodes("it is new", func(all map[string]node) bool { return all["cp/default/edge"].InStep })
		Expect(w.Mesh(http.MethodDelete, name, nil).Body).To(ContainSubstring("is connected"))

		By("asking for a revision that does not exist")
		r := w.Mesh(http.MethodGet, "/revisions/999999", nil)
		Expect(r.Status).To(Equal(http.StatusNotFound))
		Expect(r.Body).To(MatchRegexp(`Revision 999999 does not exist: the newest is [0-9]+`))
		for _, m := range members {
			Expect(strings.Count(m.Output(), "panic")).To(BeZero())
		}
	})
})

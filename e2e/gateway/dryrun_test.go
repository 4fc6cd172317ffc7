package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("a dry run at a gateway", Ordered, func() {
	const patience = time.Minute
	var (
		c      *framework.ControlPlane
		f      *framework.Fixture
		second *framework.Upstream
	)

	BeforeAll(func() {
		c = framework.NewControlPlane("standalone").Start()
		f = framework.NewFixture(c)
		f.Must(200, http.MethodPatch, "/plugins/"+f.Plugin, map[string]any{"enabled": false})
		second = framework.StartUpstream()
		f.Converged()
	})

	type resource struct{ Type, Name, Change string }
	var answer struct {
		DryRun  bool
		Verdict string
		Nodes   struct{ Compared, Changed int }
		Changes []struct {
			Nodes     []string
			Resources []resource
		}
	}
	// holds lists the versions of what the gateway has acknowledged.
	holds := func(node string) map[string]string {
		var doc struct {
			Acknowledged bool
			Resources    []struct{ Type, Name, Acknowledged string }
		}
		r := f.Must(200, http.MethodGet, "/nodes/"+node+"/config", nil)
		ExpectWithOffset(1, json.Unmarshal([]byte(r.Body), &doc)).To(Succeed(), r.Body)
		ExpectWithOffset(1, doc.Acknowledged).To(BeTrue(), r.Body)
		out := map[string]string{}
		for _, r := range doc.Resources {
			out[r.Type+" "+r.Name] = r.Acknowledged
		}
		return out
	}

	It("says what a service would change, changes nothing, and then exactly that arrives", func() {
		port, err := strconv.Atoi(second.Port())
		Expect(err).NotTo(HaveOccurred())
		r := f.Must(200, http.MethodPatch, "/services/api?dryRun=true", map[string]any{"port": port})
		Expect(json.Unmarshal([]byte(r.Body), &answer)).To(Succeed(), r.Body)
		Expect(answer.DryRun).To(BeTrue())
		Expect(answer.Verdict).To(Equal("updated"))
		Expect(answer.Nodes.Changed).To(Equal(1))
		Expect(answer.Changes).To(HaveLen(1))
		node := "cp%2Fdefault%2F" + answer.Changes[0].Nodes[0][len("cp/default/"):]

		before := holds(node)
		f.Must(201, http.MethodPost, "/consumers", map[string]any{"username": "marker"}) // goes after what was tried
		f.Converged()
		Expect(holds(node)).To(Equal(before))
		Expect(f.Must(200, http.MethodGet, "/services/api", nil).JSON()["port"]).NotTo(BeEquivalentTo(port))
		Expect(f.Status(c.HTTP, "")).To(Equal(200))
		served := func() string {
			r, err := f.Call(c.HTTP, "")
			if err != nil {
				return err.Error()
			}
			return r.Body
		}
		Expect(served()).NotTo(ContainSubstring(fmt.Sprintf("127.0.0.1:%d", port)))

		f.Must(200, http.MethodPatch, "/services/api", map[string]any{"port": port})
		f.Converged()
		after := holds(node)
		for _, r := range answer.Changes[0].Resources {
			key := r.Type + " " + r.Name
			switch r.Change {
			case "added":
				Expect(before).NotTo(HaveKey(key))
				Expect(after).To(HaveKey(key))
			case "removed":
				Expect(before).To(HaveKey(key))
				Expect(after).NotTo(HaveKey(key))
			default:
				Expect(after[key]).NotTo(Equal(before[key]), key)
			}
			delete(before, key)
			delete(after, key)
		}
		Expect(after).To(Equal(before), "nothing else has changed")
		Eventually(served, patience, "10ms").Should(ContainSubstring(fmt.Sprintf("127.0.0.1:%d", port)))
	})

	It("takes nothing from credentials, and shows none", func() {
		f.Must(200, http.MethodPatch, "/plugins/"+f.Plugin, map[string]any{"enabled": true})
		f.Converged()
		token := f.MustMint(c.HTTPS)
		Expect(f.Status(c.HTTP, token)).To(Equal(200))
		for _, path := range []string{"/oauth2_tokens/" + token, "/consumers/alice"} {
			r := f.Must(200, http.MethodDelete, path+"?dryRun=true", nil)
			Expect(r.Body).To(ContainSubstring(`"verdict":"deleted"`))
			Expect(r.Body).NotTo(ContainSubstring(token))
		}
		r := f.Must(200, http.MethodPost, "/consumers/alice/key-auth?dryRun=true", map[string]any{"key": token})
		Expect(r.Body).NotTo(ContainSubstring(token))
		Expect(f.Status(c.HTTP, token)).To(Equal(200))
		f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
		Expect(f.Status(c.HTTP, token)).To(Equal(401))
	})
})

package mesh_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// announced is the answer to a dry run.
type announced struct {
	DryRun   bool
	Verdict  string
	Revision uint64
	Nodes    struct{ Compared, Changed, Omitted int }
	Changes  []struct {
		Nodes     []string
		Resources []struct {
			Type, Name, Change string
			Diff               []edit
		}
	}
	Problems []any
}

// edit is an operation of a JSON patch.
type edit struct {
	Op, Path string
	Value    any
}

// patched applies edits to a JSON value.
func patched(doc any, edits []edit) any {
	for _, e := range edits {
		doc = patch(doc, strings.Split(e.Path, "/")[1:], e)
	}
	return doc
}

func patch(doc any, at []string, e edit) any {
	if len(at) == 0 {
		return e.Value // nil for what is removed
	}
	name := strings.NewReplacer("~1", "/", "~0", "~").Replace(at[0])
	switch d := doc.(type) {
	case map[string]any:
		if len(at) > 1 || e.Op != "remove" {
			d[name] = patch(d[name], at[1:], e)
		} else {
			delete(d, name)
		}
		return d
	case []any:
		i, err := strconv.Atoi(name)
		Expect(err).NotTo(HaveOccurred())
		switch {
		case len(at) > 1 || e.Op == "replace":
			d[i] = patch(d[i], at[1:], e)
		case e.Op == "add":
			d = slices.Insert(d, i, e.Value)
		default:
			d = slices.Delete(d, i, i+1)
		}
		return d
	}
	Fail("there is nothing at " + e.Path)
	return nil
}

var _ = Describe("a dry run", Ordered, func() {
	var (
		w            *world
		web, backend *member
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		backend = w.start("backend-1", tags{service: "backend"})
		web = w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web, backend)
		answers(web.to("backend"), 200)
	})

	// holds is what an Envoy has acknowledged, by type and name.
	holds := func(name string) map[string]any {
		out, _ := w.Get("/meshes/" + shop + "/dataplanes/" + name + "/_config")["xds"].(map[string]any)
		return out
	}
	own := func(m *member) string {
		text, err := m.Admin("/config_dump?include_eds")
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		return text
	}
	try := func(method, path string, doc any) (a announced) {
		r := w.Mesh(method, "/meshes/"+shop+"/"+path+"?dryRun=true", doc)
		ExpectWithOffset(1, r.Status).To(Equal(http.StatusOK), r.Body)
		ExpectWithOffset(1, r.Header).NotTo(HaveKey("X-Mesh-Revision"), "there is nothing to wait for")
		ExpectWithOffset(1, json.Unmarshal([]byte(r.Body), &a)).To(Succeed(), r.Body)
		ExpectWithOffset(1, a.DryRun).To(BeTrue())
		ExpectWithOffset(1, a.Problems).To(BeEmpty())
		return a
	}
	// same demands that an Envoy holds what it held. The order of members in a dump is random.
	same := func(m *member, before string) {
		var had, has any
		ExpectWithOffset(2, json.Unmarshal([]byte(before), &had)).To(Succeed())
		ExpectWithOffset(2, json.Unmarshal([]byte(own(m)), &has)).To(Succeed())
		ExpectWithOffset(2, reflect.DeepEqual(has, had)).To(BeTrue(), "something has arrived at "+m.Name)
	}
	// nothing demands that nothing arrives at the Envoys. A write that concerns no proxy goes
	// after what was tried: whoever has that has everything before it.
	nothing := func(before ...string) {
		w.Put("secrets", framework.Document{"type": "Secret", "mesh": shop, "name": "marker", "data": "YQ=="})
		w.Converged()
		same(web, before[0])
		same(backend, before[1])
	}
	// exactly demands that an Envoy has what it had with what was announced for it, and nothing
	// else.
	exactly := func(a announced, name string, before map[string]any) {
		for _, c := range a.Changes {
			if !slices.Contains(c.Nodes, shop+"."+name) {
				continue
			}
			for _, r := range c.Resources {
				list := before[r.Type].(map[string]any)
				switch r.Change {
				case "removed":
					ExpectWithOffset(1, list).To(HaveKey(r.Name))
					delete(list, r.Name)
				default:
					list[r.Name] = patched(list[r.Name], r.Diff)
				}
			}
		}
		ExpectWithOffset(1, holds(name)).To(Equal(before))
	}

	timeouts := policy("Timeout", "slow", tags{service: "web"}, tags{service: "backend"}, map[string]any{"connectTimeout": "7s", "http": map[string]any{"requestTimeout": "3s"}})

	It("says what a policy would change, and then exactly that arrives at Envoy", func() {
		before := []string{own(web), own(backend)}
		a := try(http.MethodPut, "timeouts/slow", timeouts)
		Expect(a.Verdict).To(Equal("created"))
		Expect(a.Nodes.Compared).To(Equal(2))
		Expect(a.Nodes.Changed).To(Equal(1))
		Expect(a.Changes).To(HaveLen(1))
		Expect(a.Changes[0].Nodes).To(Equal([]string{shop + ".web-1"}))
		Expect(w.Mesh(http.MethodGet, "/meshes/"+shop+"/timeouts/slow", nil).Status).To(Equal(http.StatusNotFound))
		nothing(before...)

		had, others := holds("web-1"), holds("backend-1")
		w.Put("timeouts", timeouts)
		w.Converged()
		exactly(a, "web-1", had)
		exactly(a, "backend-1", others)
		Expect(own(web)).To(ContainSubstring(`"connect_timeout": "7s"`))
		Expect(before[0]).NotTo(ContainSubstring(`"connect_timeout": "7s"`))
		same(backend, before[1])
		answers(web.to("backend"), 200)
	})

	It("says what a deletion, and another replica, would change", func() {
		before := []string{own(web), own(backend)}
		deletion := try(http.MethodDelete, "timeouts/slow", nil)
		Expect(deletion.Verdict).To(Equal("deleted"))
		second := w.describe("backend-2", tags{service: "backend"})
		replica := try(http.MethodPut, "dataplanes/backend-2", second.doc)
		Expect(replica.Changes).To(HaveLen(1))
		nothing(before...)

		had := holds("web-1")
		w.Put("dataplanes", second.doc)
		w.Converged()
		exactly(replica, "web-1", had)
		had = holds("web-1")
		w.Delete(shop, "timeouts", "slow")
		w.Converged()
		exactly(deletion, "web-1", had)
		Expect(own(web)).NotTo(ContainSubstring(`"connect_timeout": "7s"`))
		answers(web.to("backend"), 200)
	})

	It("answers with the error of the write, and is refused where it is impossible", func() {
		wrong := policy("Timeout", "slow", tags{service: "web"}, tags{}, nil)
		real := w.Mesh(http.MethodPut, "/meshes/"+shop+"/timeouts/slow", wrong)
		tried := w.Mesh(http.MethodPut, "/meshes/"+shop+"/timeouts/slow?dryRun=true", wrong)
		Expect(real.Status).To(Equal(http.StatusBadRequest))
		Expect(tried.Body).To(Equal(real.Body))
		r := w.Mesh(http.MethodPost, "/tokens/dataplane?dryRun=true", map[string]any{"name": "web-1", "mesh": shop})
		Expect(r.Status).To(Equal(http.StatusBadRequest))
		Expect(r.Body).To(ContainSubstring("cannot be tried here"))
		Expect(w.Mesh(http.MethodPut, "/meshes/"+shop+"/timeouts/slow?dryrun=true", timeouts).Status).To(Equal(http.StatusBadRequest))
		Expect(w.Mesh(http.MethodGet, "/meshes/"+shop+"/timeouts/slow", nil).Status).To(Equal(http.StatusNotFound))
	})
})

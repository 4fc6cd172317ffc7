package edge_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("the control plane", func() {
	json := http.Header{"Content-Type": {"application/json"}}
	deep := strings.Repeat(`{"a":[`, 100_000)
	large := `{"username":"` + strings.Repeat("a", 8<<20) + `"}`

	It("limits what it reads of anybody", func() {
		admin, mesh := f.AdminURL(""), fmt.Sprintf("http://127.0.0.1:%d", c.Mesh)
		for _, t := range []struct {
			what, url, body string
			header          http.Header
			want            []int
		}{
			{"deep JSON", admin + "/consumers", deep, json, []int{400}},
			{"deep plugin configuration", admin + "/plugins", `{"name":"oauth2","config":` + deep, json, []int{400}},
			{"a large document", admin + "/consumers", large, json, []int{413}},
			{"a large form", admin + "/consumers", "username=" + strings.Repeat("a", 8<<20), http.Header{"Content-Type": {formType}}, []int{413}},
			{"many form fields", admin + "/consumers", strings.Repeat("a=b&", 100_000), http.Header{"Content-Type": {formType}}, []int{400, 413}},
			{"deep form names", admin + "/consumers", strings.Repeat("a.", 50_000) + "a=b", http.Header{"Content-Type": {formType}}, []int{400, 413}},
			{"deep JSON for a token", mesh + "/tokens/gateway", deep, json, []int{400}},
			{"a large request for a token", mesh + "/tokens/gateway", large, json, []int{400, 413}},
			{"a large enrolment without a token", dataURL("/bootstrap"), large, json, []int{401, 413}},
			{"a large token", dataURL("/bootstrap"), "{}", http.Header{"Authorization": {"Bearer " + strings.Repeat("a", 512<<10)}}, []int{401, 431}},
			{"a large header", admin + "/consumers", "{}", http.Header{"X-A": {strings.Repeat("a", 4<<20)}}, []int{431}},
		} {
			client := dataClient()
			if !strings.HasPrefix(t.url, "https") {
				client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: rawDeadline}
			}
			r, err := framework.Do(client, http.MethodPost, t.url, t.header, t.body)
			if err != nil {
				// The server has answered and closed before it had read everything.
				Expect(err.Error()).To(Or(ContainSubstring("reset"), ContainSubstring("broken pipe"), ContainSubstring("EOF")), t.what)
			} else {
				Expect(r.Status).To(BeElementOf(t.want), "%s: %s", t.what, r.Body[:min(len(r.Body), 300)])
			}
			Expect(c.Running()).To(BeTrue(), t.what)
		}
		framework.ExpectSound()
	})

	It("takes no cursor but its own", func() {
		page := f.Must(200, http.MethodGet, "/services?size=1", nil).JSON()
		cursor, _ := page["offset"].(string)
		Expect(cursor).NotTo(BeEmpty())
		f.Must(200, http.MethodGet, "/services?size=1&offset="+url.QueryEscape(cursor), nil)
		for _, bad := range []string{"x", cursor + "x", cursor[1:], "-1", "../../etc", strings.Repeat("A", 5000)} {
			f.Must(400, http.MethodGet, "/services?size=1&offset="+url.QueryEscape(bad), nil)
		}
		for _, size := range []string{"0", "-1", "1000000000", "x", "9999999999999999999999"} {
			f.Must(400, http.MethodGet, "/services?size="+size, nil)
		}
	})

	It("does not open its APIs to the network without authentication", func() {
		for _, flag := range []string{"--admin-listen", "--mesh-listen"} {
			for _, address := range []string{"0.0.0.0", "::", trustedProxy} {
				exposed := framework.NewControlPlane("run", flag, address)
				p := framework.Start(nil, framework.Binary(), exposed.Arguments()...)
				Expect(p.Exit(time.Minute)).To(Equal(2), p.Output())
				Expect(p.Output()).To(ContainSubstring(strings.ReplaceAll(strings.TrimPrefix(flag, "--"), "-", ".")), p.Output())
			}
		}
	})
})

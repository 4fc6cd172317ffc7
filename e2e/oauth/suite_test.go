// Package oauth_test holds a real gateway against every case of oauthtest: one
// `meshgate standalone` with Envoy, an administration API and an upstream, and a
// route, plugin and applications of its own for each case. A second one has an Envoy
// that asks an authorization service.
package oauth_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/controlplane/oauth/oauthtest"
	"github.com/meshgate/meshgate/e2e/framework"
)

func TestOAuth(t *testing.T) {
	RegisterFailHandler(Fail)
	framework.RunSuite(t, "oauth")
}

var _ = AfterEach(framework.ExpectSound)

// echo is an upstream that answers with what it received.
func echo() *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"path": r.RequestURI, "body": string(body), "headers": r.Header})
	}))
	DeferCleanup(s.Close)
	return s
}

// hidesInBodies are cases with chains that an authorization service cannot carry out. Their
// routes refuse every request.
var hidesInBodies = []string{"hidden", "hidden-parameters"}

// The worlds of all cases are made before the first runs, so that the proxies
// need to be waited for once.
var _ = Describe("a gateway", Ordered, ContinueOnFailure, func() {
	cases, problem := oauthtest.Cases()
	passes(cases, problem)
})

var _ = Describe("a gateway that asks an authorization service", Label("extauthz"), Ordered, ContinueOnFailure, func() {
	cases, problem := oauthtest.Cases()
	cases = slices.DeleteFunc(cases, func(c oauthtest.Case) bool {
		return slices.Contains(hidesInBodies, c.Name)
	})
	passes(cases, problem, "--filter-mode", "extauthz")
})

// passes holds a gateway against cases.
func passes(cases []oauthtest.Case, problem error, args ...string) {
	worlds, failures := map[string]*oauthtest.World{}, map[string]error{}

	BeforeAll(func() {
		Expect(problem).NotTo(HaveOccurred())
		upstream, err := url.Parse(echo().URL)
		Expect(err).NotTo(HaveOccurred())
		c := framework.NewControlPlane("standalone", append(args, "--gateway-trusted-ips", "127.0.0.1")...).Start()
		g := newGateway(c)
		vars := map[string]string{"upstream": upstream.Port(), "authority": fmt.Sprintf("localhost:%d", c.HTTPS)}
		for _, one := range cases {
			worlds[one.Name], failures[one.Name] = oauthtest.Make(g, one, vars)
		}
	})

	for _, one := range cases {
		It(one.Name+": "+one.Rule, Label(cmp.Or(one.Needs, "endpoints")), func() {
			Expect(failures[one.Name]).NotTo(HaveOccurred())
			Expect(worlds[one.Name].Run()).To(Succeed())
		})
	}
}

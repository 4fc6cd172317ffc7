// Package traffic_test proves where requests go that a gateway lets pass: which
// target of an upstream, by which protocol, in which TLS, as whose. The suite
// runs one real `meshgate standalone` before servers of its own.
package traffic_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// trustedProxy is an address from which tests connect to be believed.
const trustedProxy = "127.0.0.2"

// patience bounds every wait for something to be seen.
const patience = time.Minute

// The world of every spec.
var (
	c   *framework.ControlPlane
	api *framework.API
	// envoy is the process id that must never change.
	envoy int
)

func TestTraffic(t *testing.T) {
	RegisterFailHandler(Fail)
	framework.RunSuite(t, "traffic")
}

var _ = BeforeSuite(func() {
	c = framework.NewControlPlane("standalone", "--gateway-trusted-ips", trustedProxy+"/32").Start()
	api = c.API()
	envoy = framework.RunningEnvoy(c.StateDir)
	Expect(envoy).NotTo(BeZero())
})

var _ = AfterEach(func() {
	Expect(framework.RunningEnvoy(c.StateDir)).To(Equal(envoy), "Envoy was restarted")
	Expect(c.Output()).NotTo(ContainSubstring("-----BEGIN"), "no key is logged")
	framework.ExpectSound()
})

// document is a JSON document.
type document = map[string]any

// expose creates a service of a name and a route at /<name> to it.
func expose(name string, fields document) {
	service := document{"name": name}
	for k, v := range fields {
		service[k] = v
	}
	api.Must(201, http.MethodPost, "/services", service)
	api.Must(201, http.MethodPost, "/services/"+name+"/routes", document{"paths": []string{"/" + name}})
}

// pool creates an upstream of a name with targets, and exposes it.
func pool(name string, upstream document, targets ...document) {
	fields := document{"name": name}
	for k, v := range upstream {
		fields[k] = v
	}
	api.Must(201, http.MethodPost, "/upstreams", fields)
	for _, t := range targets {
		api.Must(201, http.MethodPost, "/upstreams/"+name+"/targets", t)
	}
	expose(name, document{"host": name})
	api.Converged()
}

// id is that of what was created.
func id(r *framework.Response) string {
	text, _ := r.JSON()["id"].(string)
	Expect(text).NotTo(BeEmpty())
	return text
}

// plain is the address of a path on the HTTP port.
func plain(path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", c.HTTP, path) }

// ask calls a path on the HTTP port.
func ask(path string, header http.Header) *framework.Response {
	r, err := framework.Do(api.HTTP, http.MethodGet, plain(path), header, "")
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return r
}

// spread counts by which backend requests are answered; what is no answer of a
// backend counts under its status.
func spread(path string, n int, header http.Header) map[string]int {
	out := map[string]int{}
	for range n {
		r := ask(path, header)
		name := r.Header.Get(backendHeader)
		if r.Status != http.StatusOK {
			name = fmt.Sprint(r.Status)
		}
		out[name]++
	}
	return out
}

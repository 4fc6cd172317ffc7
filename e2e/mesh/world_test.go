package mesh_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// shop is the mesh of every world.
const shop = "shop"

// Tag keys of mesh documents.
const (
	service  = "mesh.io/service"
	protocol = "mesh.io/protocol"
)

// Names of documents that are in every mesh from its start.
const (
	allowAll = "allow-all-" + shop
	routeAll = "route-all-" + shop
)

// patience bounds what has no bound of its own.
const patience = 30 * time.Second

// lag bounds how long an Envoy may do otherwise than it has confirmed where more than one of its parts
// has to follow, such as a listener that waits for its routes before it takes the place of another.
const lag = 10 * time.Second

type tags = map[string]string

// world is a control plane with a mesh.
type world struct {
	*framework.API
	cp *framework.ControlPlane
}

// newWorld starts a control plane and creates the mesh.
func newWorld(mode string, args ...string) *world {
	return adopt(framework.NewControlPlane("run", args...).Start(), mode)
}

func adopt(cp *framework.ControlPlane, mode string) *world {
	w := &world{API: cp.API(), cp: cp}
	w.secure(mode)
	return w
}

// secure switches mutual TLS: "", PERMISSIVE or STRICT.
func (w *world) secure(mode string) {
	d := framework.Document{"type": "Mesh", "name": shop}
	if mode != "" {
		d["mtls"] = map[string]any{
			"enabledBackend": "ca-1",
			"backends":       []any{map[string]any{"name": "ca-1", "type": "builtin", "mode": mode}},
		}
	}
	w.Put("meshes", d)
}

// policy is a document with source and destination selectors.
func policy(kind, name string, from, to tags, conf any) framework.Document {
	d := framework.Document{
		"type": kind, "mesh": shop, "name": name,
		"sources": []any{map[string]any{"match": from}}, "destinations": []any{map[string]any{"match": to}},
	}
	if conf != nil {
		d["conf"] = conf
	}
	return d
}

// route replaces the route from everybody to backend.
func (w *world) route(conf any) {
	w.Put("traffic-routes", policy("TrafficRoute", "to-backend", tags{service: "*"}, tags{service: "backend"}, conf))
}

// share is one destination of a split.
func share(weight int, destination tags) map[string]any {
	return map[string]any{"weight": weight, "destination": destination}
}

// member is a workload with its dataplane and its sidecar.
type member struct {
	*framework.Sidecar
	work *framework.Workload
	// doc is the dataplane, port its inbound's and out the ports to services.
	doc  framework.Document
	port int
	out  map[string]int
}

// describe makes a member of a service without storing or starting anything.
func (w *world) describe(name string, of tags, outbounds ...string) *member {
	work := framework.StartWorkload(name)
	all := tags{protocol: "http"}
	maps.Copy(all, of)
	return w.around(name, work, work.Port, all, outbounds...)
}

// around describes the proxy of a workload that listens on a port.
func (w *world) around(name string, work *framework.Workload, servicePort int, of tags, outbounds ...string) *member {
	ports := framework.FreePorts(1 + len(outbounds))
	m := &member{work: work, port: ports[0], out: map[string]int{}}
	var out []any
	for i, to := range outbounds {
		m.out[to] = ports[1+i]
		out = append(out, map[string]any{"port": ports[1+i], "tags": tags{service: to}})
	}
	m.doc = framework.Document{"type": "Dataplane", "mesh": shop, "name": name, "networking": map[string]any{
		"address":  "127.0.0.1",
		"inbound":  []any{map[string]any{"port": m.port, "servicePort": servicePort, "tags": of}},
		"outbound": out,
	}}
	return m
}

// join stores the dataplane and starts its sidecar, perhaps with more arguments, without waiting
// for it.
func (w *world) join(m *member, more ...string) *member {
	w.Put("dataplanes", m.doc)
	m.Sidecar = framework.NewSidecar(w.cp, shop, m.doc["name"].(string), "", more...).Start()
	return m
}

// start is describe and join.
func (w *world) start(name string, of tags, outbounds ...string) *member {
	return w.join(w.describe(name, of, outbounds...))
}

// registering starts a member of backend that registers itself, by a file with variables.
func (w *world) registering(name string, flags ...string) *member {
	return w.registeringAs(name, nil, flags...)
}

// registeringAs is registering with more tags.
func (w *world) registeringAs(name string, more tags, flags ...string) *member {
	m := w.describe(name, tags{service: "backend"})
	text := `type: Dataplane
mesh: {{ mesh }}
name: {{name}}
networking:
  address: 127.0.0.1
  inbound:
  - port: {{ port }}
    servicePort: {{ servicePort }}
    tags:
      mesh.io/service: backend
      mesh.io/protocol: http
`
	for key, value := range more {
		text += "      " + key + ": " + value + "\n"
	}
	file := filepath.Join(GinkgoT().TempDir(), "dataplane.yaml")
	writeFile(file, []byte(text))
	flags = append(flags, "--dataplane-var", "mesh="+shop, "--dataplane-var", "name="+name,
		"--dataplane-var", fmt.Sprintf("port=%d", m.port), "--dataplane-var", fmt.Sprintf("servicePort=%d", m.work.Port))
	m.Sidecar = framework.NewSidecar(w.cp, shop, name, file, flags...).Start()
	return m
}

// ready waits until the sidecars have everything that was written.
func (w *world) ready(members ...*member) {
	for _, m := range members {
		m.WaitReady()
	}
	w.Converged()
}

// to is the address of a service as the member's workload sees it.
func (m *member) to(name string) string { return fmt.Sprintf("http://127.0.0.1:%d", m.out[name]) }

// inbound is the address of the member's proxy as others see it.
func (m *member) inbound() string { return fmt.Sprintf("127.0.0.1:%d", m.port) }

// get asks on a connection of its own.
func get(url string) (*framework.Response, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	return framework.Do(client, http.MethodGet, url, http.Header{}, "")
}

// called is the status that get is answered with; 0 without an answer.
func called(url string) int {
	r, err := get(url)
	if err != nil {
		return 0
	}
	return r.Status
}

// answers waits until a URL is answered with a status.
func answers(url string, want int) {
	EventuallyWithOffset(1, func() int { return called(url) }, patience, 10*time.Millisecond).Should(Equal(want), url)
}

// stays demands that the next requests are all answered with a status.
func stays(ask func() int, want int) {
	GinkgoHelper()
	for n := range 20 {
		Expect(ask()).To(Equal(want), "request %d", n+1)
	}
}

// follow waits for a status after proxies have confirmed what causes it. From the first such answer on
// no request is answered otherwise.
func follow(ask func() int, want int) {
	GinkgoHelper()
	Eventually(ask, lag, 5*time.Millisecond).Should(Equal(want))
	stays(ask, want)
}

// none demands that every request of a load was answered with 200, and that
// there were some. On a busy machine these take a while.
func none(l *framework.Load) {
	EventuallyWithOffset(1, l.Total, patience, 10*time.Millisecond).Should(BeNumerically(">", 100))
	total, failures := l.Stop()
	ExpectWithOffset(1, failures).To(BeEmpty(), "of %d requests", total)
	AddReportEntry("requests, none failed", total, ReportEntryVisibilityFailureOrVerbose)
}

// measured asks without a pause until something holds and reports how long it took
// from since. How long is for the reader of the report: a busy machine is no mistake.
func measured(what string, since time.Time, holds func() bool) {
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			Fail(fmt.Sprintf("%s: not in %s", what, patience), 1)
		}
	}
	AddReportEntry(what, time.Since(since).Round(100*time.Microsecond).String())
}

// overview is what is known about the proxy of a dataplane.
type overview struct {
	Insight struct {
		Subscriptions []struct {
			ID         string     `json:"id"`
			Instance   string     `json:"controlPlaneInstanceId"`
			Connect    time.Time  `json:"connectTime"`
			Disconnect *time.Time `json:"disconnectTime"`
			Status     map[string]json.RawMessage
			Version    struct {
				Agent struct {
					Version string `json:"version"`
				} `json:"meshDp"`
				Proxy struct {
					Version string `json:"version"`
				} `json:"proxy"`
			} `json:"version"`
			Rejected map[string]struct {
				Error string `json:"error"`
			} `json:"rejected"`
		} `json:"subscriptions"`
		MTLS *struct {
			Expiration    time.Time `json:"certificateExpirationTime"`
			Last          time.Time `json:"lastCertificateRegeneration"`
			Regenerations int       `json:"certificateRegenerations"`
			Issued        string    `json:"issuedBackend"`
			Supported     []string  `json:"supportedBackends"`
		} `json:"mTLS"`
	} `json:"dataplaneInsight"`
	Errors []string `json:"errors"`
}

func (w *world) overview(name string) (o overview) {
	r := w.Mesh(http.MethodGet, "/meshes/"+shop+"/dataplanes+insights/"+name, nil)
	ExpectWithOffset(1, r.Status).To(Equal(http.StatusOK), r.Body)
	ExpectWithOffset(1, json.Unmarshal([]byte(r.Body), &o)).To(Succeed(), r.Body)
	return o
}

// online reports whether a stream of the proxy is open.
func (o overview) online() bool {
	n := len(o.Insight.Subscriptions)
	return n > 0 && o.Insight.Subscriptions[n-1].Disconnect == nil
}

// counter reads a counter of a stream's status, such as total responsesSent; they
// are strings.
func counter(status map[string]json.RawMessage, kind, name string) (n int) {
	var counters map[string]string
	_ = json.Unmarshal(status[kind], &counters)
	_, _ = fmt.Sscan(counters[name], &n)
	return n
}

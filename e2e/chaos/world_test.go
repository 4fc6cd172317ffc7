package chaos_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// proxyNames are the proxies that credentials are shown to.
var proxyNames = []string{"gateway-a", "gateway-b", "gateway-c", "sidecar"}

const gateways = 3

// proxy is one Envoy with its agent.
type proxy struct {
	index int
	name  string
	// call is the address of the protected service, keys of the one behind API keys
	// and tls where tokens are issued; a sidecar has the first one only.
	call, keys, tls string
	stateDir        string
	// link is between the agent, with its Envoy, and the control plane.
	link *wire
	// agent is the process of now, launch starts it again.
	agent  func() *framework.Process
	launch func()
}

// sidecar reports whether the proxy is one.
func (p *proxy) sidecar() bool { return p.index >= gateways }

// world is a running system with a wire between any two of its parts.
type world struct {
	cp      *framework.ControlPlane
	api     *framework.API
	redis   *framework.Redis
	proxies []*proxy
	// cpRedis and proxyRedis are the wires to Redis.
	cpRedis, proxyRedis *wire
	// service and app are the ids of the protected service and of the application
	// whose tokens are never revoked all together.
	service, app string
	// good are the access tokens that stay good.
	good []*credential
	book *book
	seed uint64
	// short and long are the clients of all actors.
	short, long *http.Client
}

// Names of the fixture.
const (
	consumer     = "good"
	clientID     = "good-app"
	clientSecret = "good-secret"
	provision    = "provision-key"
	redirect     = "https://app.example/cb"
	mesh         = "shop"
	// protected and strict are the endpoints of the plugin that every proxy follows,
	// and of one with the strict profile on another route to the same service.
	protected, strict = "/api/oauth2/", "/strict/oauth2/"
)

// goods is how many tokens stay good.
const goods = 6

func newWorld(b *book, seed uint64) *world {
	w := &world{book: b, seed: seed}
	w.redis = framework.StartRedis("--enable-debug-command", "local")
	w.cpRedis, w.proxyRedis = newWire("control plane to Redis", w.redis.Port), newWire("proxies to Redis", w.redis.Port)
	w.cp = framework.NewControlPlane("run", "--log-level", "warn",
		"--redis-url", fmt.Sprintf("redis://127.0.0.1:%d", w.cpRedis.port()), "--redis-node-url", fmt.Sprintf("redis://127.0.0.1:%d", w.proxyRedis.port()))
	w.cp.Start()
	w.api = w.cp.API()
	w.short, w.long = client(w.cp, 3*time.Second), client(w.cp, 25*time.Second)
	upstream := framework.StartWorkload("backend")
	plugin := w.protect(upstream.Port)
	for i := range gateways {
		w.proxies = append(w.proxies, w.gateway(i))
	}
	w.proxies = append(w.proxies, w.sidecar(upstream.Port, plugin))
	w.api.Converged()
	DeferCleanup(w.mend)
	return w
}

// client keeps as many connections as there are actors.
func client(c *framework.ControlPlane, timeout time.Duration) *http.Client {
	trusting := framework.TrustingClient(c.CAFile())
	trusting.Timeout = timeout
	trusting.Transport.(*http.Transport).MaxIdleConnsPerHost = 2 * actors
	return trusting
}

// protect creates the services, the plugins and the application, and returns the
// id of the plugin that sidecars follow.
func (w *world) protect(port int) string {
	must := func(path string, doc map[string]any) string {
		id, _ := w.api.Must(201, http.MethodPost, path, doc).JSON()["id"].(string)
		return id
	}
	w.service = must("/services", map[string]any{"name": "api", "host": "127.0.0.1", "port": port})
	must("/services/api/routes", map[string]any{"name": "api", "paths": []string{"/api"}})
	plugin := must("/services/api/plugins", map[string]any{"name": "oauth2", "config": map[string]any{
		"enable_client_credentials": true, "enable_password_grant": true, "provision_key": provision,
		"scopes": []string{"email", "phone"}, "token_expiration": life, "endpoints": true,
	}})
	must("/services/api/routes", map[string]any{"name": "strict", "paths": []string{"/strict"}})
	must("/routes/strict/plugins", map[string]any{"name": "oauth2", "config": map[string]any{
		"profile": "oauth2.1", "enable_authorization_code": true, "provision_key": provision, "scopes": []string{"email"}, "refresh_token_grace": 0,
	}})
	must("/services", map[string]any{"name": "keys", "host": "127.0.0.1", "port": port})
	must("/services/keys/routes", map[string]any{"name": "keys", "paths": []string{"/keys"}})
	must("/services/keys/plugins", map[string]any{"name": "key-auth"})
	must("/consumers", map[string]any{"username": consumer, "custom_id": consumer})
	w.app = must("/consumers/"+consumer+"/oauth2", application(clientID, clientSecret))
	return plugin
}

// application is the document of one.
func application(id, secret string) map[string]any {
	return map[string]any{"name": id, "client_id": id, "client_secret": secret, "redirect_uris": []string{redirect}}
}

// agentFlags are the arguments of every agent here.
func agentFlags(link *wire) []string {
	return []string{
		"--cp-address", fmt.Sprintf("https://127.0.0.1:%d", link.port()),
		"--envoy-concurrency", "1", "--drain-delay", "0s", "--drain-timeout", "1s", "--log-level", "warn",
	}
}

func (w *world) gateway(index int) *proxy {
	name := proxyNames[index]
	link := newWire(name+" to control plane", w.cp.Data)
	g := framework.StartGateway(w.cp, name, agentFlags(link)...)
	return &proxy{
		index: index, name: name, stateDir: g.StateDir, link: link,
		call:  fmt.Sprintf("http://127.0.0.1:%d/api/x", g.HTTP),
		keys:  fmt.Sprintf("http://127.0.0.1:%d/keys/x", g.HTTP),
		tls:   fmt.Sprintf("https://localhost:%d", g.HTTPS),
		agent: func() *framework.Process { return g.Process }, launch: g.Launch,
	}
}

// sidecar starts one whose inbound demands the tokens of the gateway.
func (w *world) sidecar(workload int, plugin string) *proxy {
	const service = "backend"
	w.api.Put("meshes", framework.Document{"type": "Mesh", "name": mesh})
	inbound := framework.FreePorts(1)[0]
	w.api.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": mesh, "name": service, "networking": map[string]any{
		"address": "127.0.0.1",
		"inbound": []any{map[string]any{
			"port": inbound, "servicePort": workload,
			"tags": map[string]string{"mesh.io/service": service, "mesh.io/protocol": "http"},
		}},
	}})
	w.api.Put("meshtokenauths", framework.Document{"type": "MeshTokenAuth", "mesh": mesh, "name": "tokens", "spec": map[string]any{
		"targetRef": map[string]any{"kind": "Mesh"},
		"from": []any{map[string]any{
			"targetRef": map[string]any{"kind": "Mesh"},
			"default":   map[string]any{"plugin": map[string]any{"controlPlane": "default", "id": plugin}},
		}},
	}})
	name := proxyNames[gateways]
	link := newWire(name+" to control plane", w.cp.Data)
	s := framework.NewSidecar(w.cp, mesh, service, "", agentFlags(link)...).Start()
	s.WaitReady()
	return &proxy{
		index: gateways, name: name, stateDir: s.StateDir, link: link,
		call:  fmt.Sprintf("http://127.0.0.1:%d/x", inbound),
		agent: func() *framework.Process { return s.Process }, launch: func() { s.Start() },
	}
}

// stock issues the tokens that stay good, and waits until every proxy takes them.
func (w *world) stock(ctx context.Context) {
	a := newActor(w, 0)
	for n := range goods {
		id, value := a.token(ctx, w.app, map[string]any{"expires_in": 365 * 24 * 3600})
		Expect(id).NotTo(BeEmpty())
		c := a.bearer("good", "good-"+strconv.Itoa(n), value)
		w.good = append(w.good, c)
		for _, p := range w.proxies {
			Eventually(func() int { status, _ := c.show(p); return status }, framework.ReadyTimeout, 20*time.Millisecond).Should(Equal(200), p.name)
		}
	}
}

// mend undoes every fault that may still be there.
func (w *world) mend() {
	for _, wire := range w.wires() {
		wire.set(pass)
	}
	for _, p := range w.proxies {
		signalEnvoy(p, goOn)
	}
}

// wires are all.
func (w *world) wires() []*wire {
	all := []*wire{w.cpRedis, w.proxyRedis}
	for _, p := range w.proxies {
		all = append(all, p.link)
	}
	return all
}

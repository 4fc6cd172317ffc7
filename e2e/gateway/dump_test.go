package gateway_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("what a gateway really has", Ordered, func() {
	const (
		patience = 30 * time.Second
		probe    = "canary-probe-password-8Qw3nV6z"
	)
	var (
		c       *framework.ControlPlane
		g       *framework.Gateway
		f       *framework.Fixture
		secrets map[string]string
	)

	BeforeAll(func() {
		redis := framework.StartRedis()
		settings := filepath.Join(GinkgoT().TempDir(), "meshgate.yaml")
		everything := []string{"~*", "&*", "+@all"}
		text := fmt.Sprintf("redis:\n  url: %q\n  nodeURL: %q\n", redis.User("canary-redis-writer-5Tg2", everything...), redis.User("canary-redis-reader-7Hm4", everything...))
		Expect(os.WriteFile(settings, []byte(text), 0o600)).To(Succeed())
		c = framework.NewControlPlane("run", "--config", settings).Start()
		g = framework.StartGateway(c, "edge", "--access-log-path", filepath.Join(GinkgoT().TempDir(), "access.log"))
		f = framework.NewFixture(c)
		secrets = map[string]string{
			"client secret": framework.ClientSecret, "a probe's password": probe,
			"a probe's credentials": base64.StdEncoding.EncodeToString([]byte("probe:" + probe)),
			"API key":               "canary-api-key-1Zx9cVbnMk", "provision key": "canary-provision-key-4Rt6yU",
			"Redis password of the control plane": "canary-redis-writer-5Tg2", "Redis password of gateways": "canary-redis-reader-7Hm4",
		}
		f.Must(201, http.MethodPost, "/upstreams", map[string]any{"name": "pool.test", "healthchecks": map[string]any{"active": map[string]any{
			"http_path": "/", "healthy": map[string]any{"interval": 1},
			"headers": map[string]any{"Authorization": []string{"Basic " + secrets["a probe's credentials"]}, "X-Tenant": []string{probe}},
		}}})
		certificate, key := framework.Certificate("client.test")
		secrets["key of a client certificate"] = strings.Split(key, "\n")[1]
		client := f.Must(201, http.MethodPost, "/certificates", map[string]any{"cert": certificate, "key": key}).JSON()["id"]
		certificate, key = framework.Certificate("shop.test")
		secrets["key of a server certificate"] = strings.Split(key, "\n")[1]
		server := f.Must(201, http.MethodPost, "/certificates", map[string]any{"cert": certificate, "key": key}).JSON()["id"]
		f.Must(201, http.MethodPost, "/snis", map[string]any{"name": "shop.test", "certificate": map[string]any{"id": server}})
		f.Must(201, http.MethodPost, "/services", map[string]any{
			"name": "pool", "host": "pool.test", "protocol": "https", "client_certificate": map[string]any{"id": client},
		})
		f.Must(201, http.MethodPost, "/services/pool/routes", map[string]any{"name": "pool", "paths": []string{"/pool"}})
		f.Must(201, http.MethodPost, "/services/pool/plugins", map[string]any{"name": "key-auth"})
		f.Must(201, http.MethodPost, "/services/pool/plugins", map[string]any{"name": "oauth2", "config": map[string]any{
			"enable_client_credentials": true, "provision_key": secrets["provision key"],
		}})
		f.Must(201, http.MethodPost, "/consumers/alice/key-auth", map[string]any{"key": secrets["API key"]})
		f.Converged()
		secrets["access token"] = f.MustMint(g.HTTPS)
		Expect(f.Status(g.HTTP, secrets["access token"])).To(Equal(200))
		for what, file := range map[string]string{
			"node token": filepath.Join(g.StateDir, "token"), "encryption key": filepath.Join(c.StateDir, "encryption.key"),
		} {
			raw, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			secrets[what] = strings.TrimSpace(string(raw))
		}
		// The last part of a token is what makes it one.
		secrets["signature of the node token"] = secrets["node token"][strings.LastIndexByte(secrets["node token"], '.')+1:]
	})

	// dump asks the administration API, and the mesh API for the same.
	dump := func(query string) (out []string) {
		GinkgoHelper()
		r := f.Must(200, http.MethodGet, "/nodes/cp%2Fdefault%2Fedge/xds"+query, nil)
		other := f.Mesh(http.MethodGet, "/nodes/cp%2Fdefault%2Fedge/xds"+query, nil)
		Expect(other.Status).To(Equal(200), other.Body)
		return []string{r.Body, other.Body}
	}

	none := func(where, text string) {
		GinkgoHelper()
		for what, secret := range secrets {
			for _, form := range framework.PlainForms(secret) {
				Expect(strings.Contains(text, form)).To(BeFalse(), "%s: %s", where, what)
			}
		}
		for _, head := range []string{"-----BEGIN PRIVATE KEY-----", "-----BEGIN EC PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----"} {
			for _, form := range framework.PlainForms(head) {
				Expect(strings.Contains(text, form)).To(BeFalse(), "%s: %s", where, head)
			}
		}
	}

	It("is what its Envoy says, on both APIs, without a secret", func() {
		for _, text := range dump("") {
			Expect(text).To(And(
				ContainSubstring(`"type.googleapis.com/envoy.admin.v3.ListenersConfigDump"`), ContainSubstring("gateway:https:"), ContainSubstring("/pool"),
				ContainSubstring(`"gateway:identity"`), ContainSubstring("W3JlZGFjdGVkXQ=="), ContainSubstring(`"[redacted]"`), ContainSubstring("x-tenant"),
				Not(ContainSubstring(`"source"`)),
			))
			none("the dump of Envoy", text)
		}
	})

	It("is what it was sent and what became of that, without a secret", func() {
		for _, text := range dump("?source=control-plane") {
			Expect(text).To(And(ContainSubstring("this is what the proxy was sent"), ContainSubstring(`"acknowledged": true`),
				ContainSubstring(`"state": "acknowledged"`), ContainSubstring("/pool"), Not(ContainSubstring(`"state": "sent"`))))
			none("the record", text)
		}
	})

	It("is for administrators only, and of nodes that are known", func() {
		f.Must(404, http.MethodGet, "/nodes/cp%2Fdefault%2Fnobody/xds", nil)
		f.Must(400, http.MethodGet, "/nodes/cp%2Fdefault%2Fedge/xds?source=x", nil)
		r, err := framework.Do(f.HTTP, http.MethodGet, f.AdminURL("/nodes/cp%2Fdefault%2Fedge/xds"), http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(BeElementOf(http.StatusUnauthorized, http.StatusForbidden), r.Body)
		Expect(r.Body).NotTo(ContainSubstring("configs"))
	})

	It("is shown by the command, by resource", func() {
		run := func(args ...string) string {
			GinkgoHelper()
			out, err := exec.Command(framework.Binary(), append([]string{"status", "cp/default/edge", "--address", fmt.Sprintf("http://127.0.0.1:%d", c.Admin)}, args...)...).CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), string(out))
			return string(out)
		}
		text := run()
		Expect(text).To(MatchRegexp(`(?m)^Listener +gateway:https:\d+ +[0-9a-f]{12} +same +acknowledged +-$`))
		Expect(text).To(MatchRegexp(`(?m)^Secret +gateway:identity +\S+ +held +acknowledged +-$`))
		Expect(text).To(ContainSubstring("in Envoy 0 differ, 0 are absent, 0 extra"))
		none("the command", text)
		var doc map[string]json.RawMessage
		Expect(json.Unmarshal([]byte(run("-o", "json")), &doc)).To(Succeed())
		Expect(doc).To(And(HaveKey("proxy"), HaveKey("controlPlane")))
	})

	It("is what it was sent, with the log of its own machine, when a certificate has come", func() {
		shown := func() string {
			GinkgoHelper()
			out, _ := exec.Command(framework.Binary(), "status", "edge", "--address", fmt.Sprintf("http://127.0.0.1:%d", c.Admin)).CombinedOutput()
			return string(out)
		}
		listener := regexp.MustCompile(`(?m)^Listener +gateway:https:\d+ +([0-9a-f]{12}) +(\S+) `)
		before := listener.FindStringSubmatch(shown())
		Expect(before).NotTo(BeNil())
		certificate, key := framework.Certificate("other.test")
		added := f.Must(201, http.MethodPost, "/certificates", map[string]any{"cert": certificate, "key": key}).JSON()["id"]
		f.Must(201, http.MethodPost, "/snis", map[string]any{"name": "other.test", "certificate": map[string]any{"id": added}})
		f.Converged()
		// It was accepted, and is in use once it has its certificates.
		Eventually(func() []string { return listener.FindStringSubmatch(shown()) }, patience).Should(HaveExactElements(
			Not(BeEmpty()), Not(Equal(before[1])), Equal("same")), "the listener is another one")
	})

	It("is the record where its agent does not answer, or is away, and says so", func() {
		g.Signal(syscall.SIGSTOP)
		text := f.Must(200, http.MethodGet, "/nodes/cp%2Fdefault%2Fedge/xds", nil).Body
		Expect(text).To(Or(ContainSubstring("did not answer"), ContainSubstring("cannot be asked")))
		none("the record of one that does not answer", text)
		g.Signal(syscall.SIGCONT)
		g.Kill()
		Eventually(func() string {
			return fmt.Sprint(f.Must(200, http.MethodGet, "/nodes/cp%2Fdefault%2Fedge", nil).JSON()["state"])
		}, patience, 20*time.Millisecond).Should(Equal("away"))
		for _, text := range dump("") {
			Expect(text).To(And(ContainSubstring("the proxy is away"), ContainSubstring("/pool"), ContainSubstring(`"acknowledged": true`)))
			none("the record of one that is away", text)
		}
	})
})

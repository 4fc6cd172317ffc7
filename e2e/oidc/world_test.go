// Package oidc_test calls both APIs with tokens of a real issuer: another project's OpenID
// Connect provider, in a process of its own, behind HTTPS. What makes the tokens and publishes
// the keys so shares no code, and no misunderstanding, with what checks them.
package oidc_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

func TestOIDC(t *testing.T) {
	RegisterFailHandler(Fail)
	framework.RunSuite(t, "oidc")
}

var _ = AfterEach(framework.ExpectSound)

// program is the issuer.
var program string

var _ = BeforeSuite(func() {
	program = filepath.Join(GinkgoT().TempDir(), "issuer")
	cmd := exec.Command("go", "build", "-o", program, "./e2e/oidc/issuer")
	cmd.Dir = framework.Root()
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
})

// clients are those of every issuer, by their ids. Each has its id as its secret.
var clients = map[string]map[string]any{
	"ed":    {"audience": []string{"meshgate"}, "groups": []string{"editors"}, "lifetime": 3600},
	"vi":    {"audience": []string{"meshgate"}, "groups": []string{"viewers"}, "lifetime": 3600},
	"alien": {"audience": []string{"elsewhere"}, "groups": []string{"editors"}, "lifetime": 3600},
	"late":  {"audience": []string{"meshgate"}, "groups": []string{"editors"}, "lifetime": -60},
	"nob":   {"audience": []string{"meshgate"}, "lifetime": 3600},
}

// issuer is a running issuer.
type issuer struct {
	*framework.Process
	// named is its URL in tokens, and address where it is.
	named, address string
	// ca is a file with its certificate, and keys the directory of its keys.
	ca, keys  string
	arguments []string
	client    *http.Client
}

// newIssuer starts an issuer with the key "1". With a name, it says that it is another one.
func newIssuer(named string) *issuer {
	GinkgoHelper()
	dir, port := GinkgoT().TempDir(), framework.FreePorts(1)[0]
	i := &issuer{address: "https://localhost:" + strconv.Itoa(port), ca: filepath.Join(dir, "ca.pem"), keys: filepath.Join(dir, "keys")}
	if i.named = named; named == "" {
		i.named = i.address
	}
	certificate, key := framework.Certificate("localhost")
	all := map[string]any{}
	for id, c := range clients {
		doc := map[string]any{"secret": id}
		for k, v := range c {
			doc[k] = v
		}
		all[id] = doc
	}
	text, err := json.Marshal(all)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.Mkdir(i.keys, 0o700)).To(Succeed())
	for name, content := range map[string]string{i.ca: certificate, filepath.Join(dir, "key.pem"): key, filepath.Join(dir, "clients.json"): string(text)} {
		Expect(os.WriteFile(name, []byte(content), 0o600)).To(Succeed())
	}
	i.arguments = []string{
		"-url", i.named, "-listen", fmt.Sprintf("127.0.0.1:%d", port), "-certificate", i.ca, "-key", filepath.Join(dir, "key.pem"),
		"-clients", filepath.Join(dir, "clients.json"), "-keys", i.keys,
	}
	first, err := rsa.GenerateKey(rand.Reader, 2048)
	Expect(err).NotTo(HaveOccurred())
	i.add("1", first)
	i.client = framework.TrustingClient(i.ca)
	i.start()
	return i
}

// start starts the issuer (again).
func (i *issuer) start() {
	GinkgoHelper()
	i.Process = framework.Start(nil, program, i.arguments...)
	Eventually(func() (int, error) {
		r, err := framework.Do(i.client, http.MethodGet, i.address+"/ready", nil, "")
		if err != nil {
			return 0, err
		}
		return r.Status, nil
	}, framework.ReadyTimeout, 50*time.Millisecond).Should(Equal(http.StatusOK), i.Output)
}

// add gives the issuer a key, which signs if its id is the last.
func (i *issuer) add(id string, key crypto.Signer) {
	GinkgoHelper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(i.keys, id)
	Expect(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)).To(Succeed())
	Expect(os.Rename(file, file+".pem")).To(Succeed())
}

// rotate gives it a new key, of an elliptic curve.
func (i *issuer) rotate(id string) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	i.add(id, key)
}

// withdraw takes a key away.
func (i *issuer) withdraw(id string) {
	GinkgoHelper()
	Expect(os.Remove(filepath.Join(i.keys, id+".pem"))).To(Succeed())
}

// token asks the token endpoint for a token of a client.
func (i *issuer) token(client string) string {
	GinkgoHelper()
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {client}, "client_secret": {client}}
	r, err := framework.Do(i.client, http.MethodPost, i.address+"/oauth/token", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, form.Encode())
	Expect(err).NotTo(HaveOccurred())
	Expect(r.Status).To(Equal(http.StatusOK), r.Body)
	token, _ := r.JSON()["access_token"].(string)
	Expect(token).NotTo(BeEmpty())
	return token
}

// world is a control plane that trusts an issuer.
type world struct {
	*framework.ControlPlane
	client *http.Client
}

// newWorld starts it.
func newWorld(i *issuer) *world {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "settings.yaml")
	Expect(os.WriteFile(file, fmt.Appendf(nil, `access:
  localhostIsAdmin: false
  oidc: {issuer: %q, audience: meshgate, userClaim: sub, groupsClaim: groups, caFile: %q}
  roles:
  - {role: editor, all: true, groups: [editors]}
  - {role: viewer, all: true, groups: [viewers]}
`, i.named, i.ca), 0o600)).To(Succeed())
	w := &world{ControlPlane: framework.NewControlPlane("run", "--config", file).Start()}
	w.client = w.API().HTTP
	return w
}

// answers are those to a token: to reading and writing a mesh, and to reading and writing the
// services of gateways.
func (w *world) answers(token string) (statuses [4]int) {
	GinkgoHelper()
	mesh, admin := fmt.Sprintf("https://localhost:%d", w.MeshTLS), fmt.Sprintf("https://localhost:%d", w.AdminTLS)
	for n, call := range []struct{ method, url, body string }{
		{http.MethodGet, mesh + "/meshes/default", ""},
		{http.MethodPut, mesh + "/meshes/default/dataplanes/d", `{"type":"Dataplane","mesh":"default","name":"d","networking":{"address":"10.0.0.1","inbound":[{"port":80,"tags":{"mesh.io/service":"d"}}]}}`},
		{http.MethodGet, admin + "/services", ""},
		{http.MethodPut, admin + "/services/s", `{"url":"http://127.0.0.1:9"}`},
	} {
		r, err := framework.Do(w.client, call.method, call.url, http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}, call.body)
		Expect(err).NotTo(HaveOccurred())
		statuses[n] = r.Status
		if r.Status == http.StatusCreated {
			statuses[n] = http.StatusOK // whoever comes first creates it
		}
	}
	return statuses
}

package assembly

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshca"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/xds/resource"
	xds "github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// plantedMesh is the mesh that holds secrets.
const plantedMesh = "planted"

// plantedWorld is a running control plane with a secret wherever one can be, and what is known
// of it: its log, and the tokens of its users.
type plantedWorld struct {
	*ControlPlane
	t       *testing.T
	client  *http.Client
	log     guarded
	tokens  map[string]string
	secrets []plantedSecret
	made    int
}

// guarded is a text that several write.
type guarded struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(p)
}

func (g *guarded) bytes() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return bytes.Clone(g.text.Bytes())
}

// secret makes a secret up.
func (w *plantedWorld) secret() string {
	w.made++
	return fmt.Sprintf("%s%d-planted", mark, w.made)
}

func openPlanted(t *testing.T) *plantedWorld {
	t.Helper()
	w := &plantedWorld{t: t, tokens: map[string]string{}}
	c := config.Config{
		Store:  config.Store{Type: "sqlite"},
		Tokens: config.Tokens{Issuing: true}, Cloud: config.Cloud{Roles: config.CloudGlobal + "," + config.CloudRegional}, Audit: config.Audit{AllowedNetworks: "127.0.0.1"}, Diagnostics: config.Diagnostics{Pprof: true},
		Access: config.Access{BootstrapAdminToken: true, Roles: []access.Role{
			{Role: "viewer", All: true, Users: []string{"viewer"}},
			{Role: "editor", Meshes: []string{plantedMesh}, Users: []string{"mesh editor"}},
			{Role: "admin", Meshes: []string{plantedMesh}, Users: []string{"mesh admin"}},
			{Role: "editor", ControlPlanes: []string{model.DefaultControlPlane}, Users: []string{"gateway editor"}},
		}},
	}
	w.plantSettings(&c)
	w.ControlPlane = startServing(t, c, slog.New(slog.NewJSONHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	w.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: w.authority.Pool(), MinVersion: tls.VersionTLS12}}}
	t.Cleanup(w.client.CloseIdleConnections)
	for _, user := range []string{"viewer", "mesh editor", "mesh admin", "gateway editor"} {
		w.tokens[user] = userToken(t, w.ControlPlane, user)
	}
	w.tokens["admin"] = userToken(t, w.ControlPlane, "root", model.GroupAdministrator)
	for user, token := range w.tokens {
		w.secrets = append(w.secrets, newSecret("token", user, token))
	}
	w.tokens["nobody"] = ""
	w.plantLog()
	w.plantMesh()
	w.plantGateway()
	w.plantCloud()
	w.connect("planted.web", w.issue("/tokens/dataplane", `{"mesh":"planted","name":"web","validFor":"1h"}`))
	w.connect("cp/default/a", w.issue("/tokens/gateway", `{"controlPlane":"default","name":"a","validFor":"1h"}`))
	w.secrets = append(w.secrets, storedSecrets(t, w.store)...)
	return w
}

// settingForms are the forms of secret settings that cannot be any text.
var settingForms = map[string]func(secret string) string{
	"redis.url":            func(s string) string { return "redis://writer:" + s + "@127.0.0.1:1/0" },
	"redis.nodeURL":        func(s string) string { return "redis://reader:" + s + "@127.0.0.1:1/0" },
	"store.encryption.key": func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
}

// plantSettings plants a secret in every setting that is one. A new one has any text, or, if that does not
// do, a form of its own above.
func (w *plantedWorld) plantSettings(c *config.Config) {
	w.t.Helper()
	for _, k := range config.Table {
		if !k.Secret {
			continue
		}
		secret := w.secret()
		secret += strings.Repeat("x", max(0, seal.RootSize-len(secret)))
		w.secrets = append(w.secrets, newSecret("setting", k.Name, secret))
		if form := settingForms[k.Name]; form != nil {
			secret = form(secret)
		}
		at := reflect.ValueOf(c).Elem()
		for part := range strings.SplitSeq(k.Name, ".") {
			at = settingOf(at, part)
		}
		if at.Kind() != reflect.String {
			w.t.Fatalf("the secret setting %s is no text", k.Name)
		}
		at.SetString(secret)
	}
}

// settingOf returns the member of a struct that has a name among the settings.
func settingOf(of reflect.Value, name string) reflect.Value {
	for i := range of.NumField() {
		if of.Type().Field(i).Tag.Get("koanf") == name {
			return of.Field(i)
		}
	}
	panic("no setting " + name + " in " + of.Type().Name())
}

// ask calls one of the APIs as a user.
func (w *plantedWorld) ask(port int, user, method, path, body string) (status int, answer []byte) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, fmt.Sprintf("https://localhost:%d%s", port, path), strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token := w.tokens[user]; token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	for name, values := range a.Header { // which may tell something, too
		text = fmt.Appendf(text, "\n%s: %s", name, strings.Join(values, ", "))
	}
	return a.StatusCode, text
}

func (w *plantedWorld) must(port int, method, path, body string) []byte {
	w.t.Helper()
	status, answer := w.ask(port, "admin", method, path, body)
	if status >= 300 {
		w.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return answer
}

func (w *plantedWorld) issue(path, body string) (token string) {
	w.t.Helper()
	token, _, _ = strings.Cut(string(w.must(w.MeshTLSPort(), "POST", path, body)), "\n")
	w.secrets = append(w.secrets, newSecret("token", path, token))
	return token
}

// pair is a certificate with its key, as texts inside of JSON texts.
func (w *plantedWorld) pair() (cert, key string) {
	cert, key = admittest.Certificate(w.t)
	return strings.ReplaceAll(cert, "\n", `\n`), strings.ReplaceAll(key, "\n", `\n`)
}

// root is a pair of an authority, whose key is an RSA one.
func (w *plantedWorld) root() (cert, key string) {
	w.t.Helper()
	bits := uint32(2048)
	c, k, err := meshca.GenerateRoot(plantedMesh, "x", &mesh.AuthorityConf{CACert: &mesh.CACert{RSABits: &bits}})
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.ReplaceAll(string(c), "\n", `\n`), strings.ReplaceAll(string(k), "\n", `\n`)
}

func inBase64(pem string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(pem, `\n`, "\n")))
}

// plantMesh plants secrets in the kinds of meshes.
func (w *plantedWorld) plantMesh() {
	w.t.Helper()
	put := func(path, doc string) { w.must(w.MeshTLSPort(), "PUT", path, doc) }
	c1, k1 := w.root()
	c2, k2 := w.root()
	put("/meshes/planted", `{"type":"Mesh","name":"planted","mtls":{"enabledBackend":"one","backends":[
		{"name":"one","type":"provided","conf":{"cert":{"inlineString":"`+c1+`"},"key":{"inlineString":"`+k1+`"}}}]},
		"tracing":{"defaultBackend":"z","backends":[{"name":"z","type":"zipkin","conf":{"url":"http://zipkin.example:9411/`+w.secret()+`"}}]},
		"logging":{"defaultBackend":"f","backends":[{"name":"f","type":"file","conf":{"path":"/var/log/`+w.secret()+`"}}]},
		"metrics":{"enabledBackend":"p","backends":[{"name":"p","type":"prometheus","conf":{"port":5670,"path":"/`+w.secret()+`"}}]}}`)
	put("/meshes/other", `{"type":"Mesh","name":"other","mtls":{"backends":[{"name":"two","type":"provided","conf":{"cert":{"inline":"`+inBase64(c2)+`"},"key":{"inline":"`+inBase64(k2)+`"}}}]}}`)
	put("/meshes/planted/secrets/s", `{"type":"Secret","mesh":"planted","name":"s","data":"`+inBase64(w.secret())+`"}`)
	put("/global-secrets/s", `{"type":"GlobalSecret","name":"s","data":"`+inBase64(w.secret())+`"}`)
	external := func(name, member string, as func(string) string) {
		cert, key := w.pair()
		ca := strings.ReplaceAll(admittest.Authority(w.t), "\n", `\n`)
		source := func(pem string) string { return `{"` + member + `":"` + as(pem) + `"}` }
		put("/meshes/planted/external-services/"+name, `{"type":"ExternalService","mesh":"planted","name":"`+name+`","tags":{"mesh.io/service":"`+name+`"},
			"networking":{"address":"10.9.9.9:443","tls":{"enabled":true,"caCert":`+source(ca)+`,"clientCert":`+source(cert)+`,"clientKey":`+source(key)+`}}}`)
	}
	external("x", "inlineString", func(pem string) string { return pem })
	external("y", "inline", inBase64)
	put("/meshes/planted/dataplanes/web", `{"type":"Dataplane","mesh":"planted","name":"web","networking":{"address":"127.0.0.1","inbound":[{"port":8080,"tags":{"mesh.io/service":"web","mesh.io/protocol":"http"}}],
		"outbound":[{"port":9090,"tags":{"mesh.io/service":"web"}},{"port":9091,"tags":{"mesh.io/service":"x"}},{"port":9092,"tags":{"mesh.io/service":"y"}}]}}`)
	put("/meshes/planted/health-checks/h", `{"type":"HealthCheck","mesh":"planted","name":"h","sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"web"}}],
		"conf":{"interval":"10s","timeout":"2s","unhealthyThreshold":3,"healthyThreshold":1,"http":{"path":"/","requestHeadersToAdd":[{"header":{"key":"authorization","value":"`+w.secret()+`"}}]}}}`)
	put("/meshes/planted/health-checks/t", `{"type":"HealthCheck","mesh":"planted","name":"t","sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"x"}}],
		"conf":{"interval":"10s","timeout":"2s","unhealthyThreshold":3,"healthyThreshold":1,"tcp":{"send":"`+inBase64(w.secret())+`"}}}`)
	put("/meshes/planted/traffic-routes/r", `{"type":"TrafficRoute","mesh":"planted","name":"r","sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"web"}}],
		"conf":{"http":[{"match":{"path":{"prefix":"/"}},"modify":{"requestHeaders":{"add":[{"name":"authorization","value":"`+w.secret()+`"}]}},"destination":{"mesh.io/service":"web"}}],"destination":{"mesh.io/service":"web"}}}`)
	put("/meshes/planted/meshgateways/g", `{"type":"MeshGateway","mesh":"planted","name":"g","selectors":[{"match":{"mesh.io/service":"edge"}}],"conf":{"listeners":[{"port":9900,"protocol":"HTTP"}]}}`)
	put("/meshes/planted/meshgatewayroutes/r", `{"type":"MeshGatewayRoute","mesh":"planted","name":"r","selectors":[{"match":{"mesh.io/service":"edge"}}],"conf":{"http":{"rules":[{
		"matches":[{"path":{"match":"PREFIX","value":"/"}}],"backends":[{"destination":{"mesh.io/service":"web"},"weight":1}],
		"filters":[{"requestHeader":{"set":[{"name":"authorization","value":"`+w.secret()+`"}],"add":[{"name":"x-key","value":"`+w.secret()+`"}]}}]}]}}}`)
	put("/meshes/planted/dataplanes/edge", `{"type":"Dataplane","mesh":"planted","name":"edge","networking":{"address":"127.0.0.1","gateway":{"type":"BUILTIN","tags":{"mesh.io/service":"edge"}}}}`)
	put("/zones/east", `{"type":"Zone","name":"east"}`)
	put("/zone-ingresses/in", `{"type":"ZoneIngress","name":"in","networking":{"address":"127.0.0.1","port":10001}}`)
	put("/zoneegresses/out", `{"type":"ZoneEgress","name":"out","networking":{"address":"127.0.0.1","port":10002}}`)
}

// plantGateway plants secrets in the kinds of gateways.
func (w *plantedWorld) plantGateway() {
	w.t.Helper()
	post := func(path, body string) (id string) {
		var doc struct{ ID string }
		answer, _, _ := bytes.Cut(w.must(port(w.ports.adminTLS), "POST", path, body), []byte("\n"))
		if err := json.Unmarshal(answer, &doc); err != nil {
			w.t.Fatalf("%s: %s %v", path, answer, err)
		}
		return doc.ID
	}
	c1, k1 := w.pair()
	post("/certificates", `{"cert":"`+c1+`","key":"`+k1+`","snis":["a.example"]}`)
	rsaCert, rsaKey := w.root()
	c2, k2 := w.pair()
	post("/certificates", `{"cert":"`+c2+`","key":"`+k2+`","cert_alt":"`+rsaCert+`","key_alt":"`+rsaKey+`"}`)
	post("/upstreams", `{"name":"checked","healthchecks":{"active":{"healthy":{"interval":5},"headers":{"Authorization":["`+w.secret()+`"]}}}}`)
	post("/upstreams/checked/targets", `{"target":"127.0.0.1:80"}`)
	service := post("/services", `{"name":"s","host":"checked"}`)
	post("/services/s/routes", `{"name":"r","paths":["/a"]}`)
	plugin := post("/services/s/plugins", `{"name":"oauth2","config":{"provision_key":"`+w.secret()+`","enable_authorization_code":true}}`)
	post("/services", `{"name":"keys","host":"127.0.0.1"}`)
	post("/services/keys/routes", `{"name":"keys","paths":["/b"]}`)
	post("/services/keys/plugins", `{"name":"key-auth"}`)
	post("/consumers", `{"username":"bob"}`)
	post("/consumers/bob/key-auth", `{"key":"`+w.secret()+`"}`)
	app := post("/consumers/bob/oauth2", `{"name":"app","client_id":"app","client_secret":"`+w.secret()+`","secondary_secret":"`+w.secret()+`","redirect_uris":["https://a.example/"]}`)
	post("/oauth2_tokens", `{"credential":{"id":"`+app+`"},"service":{"id":"`+service+`"},"expires_in":600,"access_token":"`+w.secret()+`","refresh_token":"`+w.secret()+`"}`)
	if _, err := w.gate.As(model.System("test")).Write(w.t.Context(), model.Credential, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Codes, Scope: model.DefaultControlPlane, Name: idOfAll, Spec: &gateway.Code{
			Credential: app, Plugin: plugin, Code: w.secret(), DropAt: time.Now().Add(time.Hour).UnixMilli(),
		}})
		if err == nil {
			_, err = tx.Create(&model.Resource{Kind: gateway.Instances, Scope: model.DefaultControlPlane, Name: "a", Spec: &gateway.Instance{
				Listen: "127.0.0.1", HTTPPort: 8000, HTTPSPort: 8443, ControlPlane: "127.0.0.1:5678",
			}})
		}
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

// plantCloud plants secrets in the kinds of the cloud API.
func (w *plantedWorld) plantCloud() {
	w.t.Helper()
	at := port(w.ports.cloudTLS)
	w.must(at, "POST", "/v2/audit-log-destinations", `{"name":"siem","endpoint":"https://siem.example/","authorization":"Bearer `+w.secret()+`","log_format":"json"}`)
	var made struct{ Token string }
	answer, _, _ := bytes.Cut(w.must(at, "POST", "/v2/personal-access-tokens", `{"name":"ci","role":"viewer","control_planes":["default"]}`), []byte("\n"))
	if err := json.Unmarshal(answer, &made); err != nil || made.Token == "" {
		w.t.Fatalf("%s %v", answer, err)
	}
	w.tokens["gateway viewer"] = made.Token
	w.secrets = append(w.secrets, newSecret("token", "personal access token", made.Token))
	var portal struct{ ID string }
	answer, _, _ = bytes.Cut(w.must(at, "POST", "/v2/portals", `{"name":"docs"}`), []byte("\n"))
	if err := json.Unmarshal(answer, &portal); err != nil || portal.ID == "" {
		w.t.Fatalf("%s %v", answer, err)
	}
	w.must(at, "POST", "/v2/portals/"+portal.ID+"/developers", `{"email":"ada@example.com","full_name":"Ada","password":"`+w.secret()+`"}`)
}

// connect has a node take its whole configuration, its secrets included.
func (w *plantedWorld) connect(node, token string) {
	w.t.Helper()
	conn, err := grpc.NewClient(fmt.Sprintf("localhost:%d", port(w.ports.data)), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: w.authority.Pool(), MinVersion: tls.VersionTLS12})))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	client, err := xdstest.Dial(metadata.AppendToOutgoingContext(context.WithoutCancel(w.t.Context()), xds.NodeKey, node), conn, xdstest.Options{Node: node, Token: token})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	client.WaitFor(w.t, "the configuration of "+node, func(v xdstest.View) bool {
		if v.Err() != nil {
			w.t.Fatal(node, v.Err())
		}
		acked, _ := v.Answers()
		set := w.snapshots.Get(node)
		return set != nil && acked >= 3 && len(set.Secrets()) == len(v.Names(resource.Secret))
	})
}

package edge_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	goredis "github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/e2e/framework"
)

// canaries are secrets by what they are. They are long and random enough to
// occur nowhere by chance. What the gateway makes itself joins them when it was
// made.
var canaries = map[string]string{
	"client secret":        "canary-client-secret-6Yq2vT8wLx",
	"second client secret": "canary-second-secret-9Jm4pR1cQe",
	"hashed client secret": "canary-hashed-secret-3Nf7dK5sUa",
	"access token":         "canary-access-token-0Zb8hW2gXo",
	"renamed access token": "canary-renamed-token-4Ck6jM9tVi",
	"refresh token":        "canary-refresh-token-7Ls1yE3bPu",
	"provision key":        "canary-provision-key-5Hd0rG8nFw",
	"unknown token":        "canary-unknown-token-2Ta9qB6mSz",
	"refused secret":       "canary-refused-secret-8Vx3kD7hJy",
	"wrong provision key":  "canary-wrong-provision-1Ue5oC9fGi",
	"wrong code":           "canary-wrong-code-6Wp2zK4yNq",
	"code verifier":        "canary-code-verifier-0Bm7sT3eXa-8Rj5vL1dQh-4Fy9cN6u",
	"API key":              "canary-api-key-3Ok8gZ1wHt",
	"renamed API key":      "canary-renamed-key-9Ix4bV7nMs",
	"unknown API key":      "canary-unknown-key-2Dj6uA0pEl",
}

// encodings are the forms in which a secret is still plain to see.
func encodings(secret string) []string {
	out := []string{secret, url.QueryEscape(secret), hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret)))}
	// Base64 of a text that contains it, at each of the three alignments; the
	// characters at the ends depend on the neighbours.
	for shift := range 3 {
		b := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x00", shift) + secret))
		out = append(out, b[4:len(b)-4])
	}
	return out
}

// leak describes the first canary in a text; it is empty if there is none.
func leak(text string) string {
	for what, secret := range canaries {
		for _, form := range encodings(secret) {
			if at := strings.Index(text, form); at >= 0 {
				return fmt.Sprintf("%s: %q", what, text[max(0, at-80):min(len(text), at+len(form)+20)])
			}
		}
	}
	return ""
}

// expectNone demands that a text holds no canary.
func expectNone(where, text string) {
	ExpectWithOffset(1, text).NotTo(BeEmpty(), where)
	ExpectWithOffset(1, leak(text)).To(BeEmpty(), where)
}

// plant brings every canary into the system, on each way that leads there.
func plant() {
	f.Must(201, http.MethodPost, "/services", map[string]any{"name": "canary", "host": "127.0.0.1", "port": open.port()})
	f.Must(201, http.MethodPost, "/services/canary/routes", map[string]any{"name": "canary", "paths": []string{"/canary"}})
	f.Must(201, http.MethodPost, "/services/canary/plugins", map[string]any{"name": "oauth2", "config": map[string]any{
		"enable_client_credentials": true, "enable_authorization_code": true, "profile": "oauth2.1",
		"provision_key": canaries["provision key"], "hide_credentials": true, "refresh_token_grace": 0,
	}})
	f.Must(201, http.MethodPost, "/consumers", map[string]any{"username": "canary"})
	app := map[string]any{"name": "canary", "client_id": "canary", "client_secret": canaries["client secret"], "redirect_uris": []string{"https://app.example/cb"}}
	id := f.Must(201, http.MethodPost, "/consumers/canary/oauth2", app).JSON()["id"]
	f.Must(201, http.MethodPost, "/consumers/canary/oauth2", map[string]any{
		"name": "hashed", "client_id": "canary-hashed", "client_secret": canaries["hashed client secret"], "hash_secret": true, "redirect_uris": []string{"https://app.example/cb"},
	})
	f.Converged()

	client := clients()["HTTP/2 over TLS"]
	exchangeSecret := func(id, secret string, want int) {
		values := url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret}}
		inURI, err := framework.Do(client.Client, http.MethodPost, client.base+"/canary/oauth2/token?"+values.Encode(), http.Header{"Content-Type": {formType}}, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(inURI.Status).To(Equal(400), inURI.Body)
		for _, try := range []struct{ query, body, auth string }{
			{"", values.Encode(), ""},
			{"", "grant_type=client_credentials", "Basic " + base64.StdEncoding.EncodeToString([]byte(id+":"+secret))},
		} {
			h := http.Header{"Content-Type": {formType}}
			if try.auth != "" {
				h.Set("Authorization", try.auth)
			}
			r, err := framework.Do(client.Client, http.MethodPost, client.base+"/canary/oauth2/token"+try.query, h, try.body)
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Status).To(Equal(want), r.Body)
		}
	}
	exchangeSecret("canary", canaries["client secret"], 200)
	exchangeSecret("canary-hashed", canaries["hashed client secret"], 200)
	f.Must(200, http.MethodPatch, "/oauth2/canary", map[string]any{"client_secret": canaries["second client secret"], "hash_secret": false})
	exchangeSecret("canary", canaries["second client secret"], 200)
	for _, secret := range []string{canaries["refused secret"], canaries["client secret"]} {
		r, err := framework.Do(client.Client, http.MethodPost, client.base+"/canary/oauth2/token", http.Header{"Content-Type": {formType}},
			url.Values{"grant_type": {"client_credentials"}, "client_id": {"canary"}, "client_secret": {secret}}.Encode())
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(BeElementOf(400, 401), r.Body)
	}

	service := f.Must(200, http.MethodGet, "/services/canary", nil).JSON()["id"]
	token := map[string]any{
		"credential": map[string]any{"id": id}, "service": map[string]any{"id": service}, "expires_in": 600,
		"access_token": canaries["access token"], "refresh_token": canaries["refresh token"],
	}
	f.Must(201, http.MethodPost, "/oauth2_tokens", token)
	f.Must(409, http.MethodPost, "/oauth2_tokens", token)
	f.Must(200, http.MethodGet, "/oauth2_tokens/"+canaries["access token"], nil)
	f.Must(404, http.MethodGet, "/oauth2_tokens/"+canaries["unknown token"], nil)
	call := func(token string, want int) {
		for _, path := range []string{"/canary/x", "/canary/x?access_token=" + token} {
			r, err := framework.Do(client.Client, http.MethodGet, client.base+path, http.Header{"Authorization": {"Bearer " + token}}, "")
			ExpectWithOffset(1, err).NotTo(HaveOccurred())
			ExpectWithOffset(1, r.Status).To(Equal(want), r.Body)
		}
	}
	call(canaries["access token"], 200)
	call(canaries["unknown token"], 401)
	f.Must(200, http.MethodPatch, "/oauth2_tokens/"+canaries["access token"], map[string]any{"access_token": canaries["renamed access token"]})
	call(canaries["access token"], 401)
	call(canaries["renamed access token"], 200)
	// What cannot be read or is wrong is quoted in no log either.
	f.Must(400, http.MethodPost, "/oauth2_tokens", map[string]any{"access_token": canaries["access token"], "expires_in": canaries["refresh token"]})
	f.Must(400, http.MethodPost, "/consumers/canary/oauth2", map[string]any{"client_secret": []string{canaries["client secret"]}})
	r, err := framework.Do(f.HTTP, http.MethodPost, f.AdminURL("/oauth2_tokens"), http.Header{"Content-Type": {"application/json"}}, `{"access_token":"`+canaries["access token"]+`"`)
	Expect(err).NotTo(HaveOccurred())
	Expect(r.Status).To(Equal(400))
	plantCodes(client)
	plantKeys(client)
}

// caller is one of [clients].
type caller = struct {
	*http.Client
	base string
}

// plantCodes has codes and tokens issued, used, used again and guessed.
func plantCodes(client caller) {
	ask := func(endpoint string, want int, pairs ...string) map[string]any {
		values := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			values.Set(pairs[i], pairs[i+1])
		}
		r, err := framework.Do(client.Client, http.MethodPost, client.base+"/canary/oauth2/"+endpoint, http.Header{"Content-Type": {formType}}, values.Encode())
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		ExpectWithOffset(1, r.Status).To(Equal(want), r.Body)
		if r.Body == "" {
			return nil
		}
		return r.JSON()
	}
	sum := sha256.Sum256([]byte(canaries["code verifier"]))
	agreed := []string{
		"client_id", "canary", "response_type", "code", "authenticated_userid", "user-1",
		"code_challenge_method", "S256", "code_challenge", base64.RawURLEncoding.EncodeToString(sum[:]), "provision_key",
	}
	ask("authorize", 400, append(agreed, canaries["wrong provision key"])...)
	back, err := url.Parse(fmt.Sprint(ask("authorize", 200, append(agreed, canaries["provision key"])...)["redirect_uri"]))
	Expect(err).NotTo(HaveOccurred())
	canaries["code"] = back.Query().Get("code")
	Expect(canaries["code"]).To(HaveLen(32))
	mine := []string{"client_id", "canary", "client_secret", canaries["second client secret"]}
	exchange := append(mine, "grant_type", "authorization_code", "code_verifier", canaries["code verifier"], "code")
	ask("token", 400, append(exchange, canaries["wrong code"])...)
	first := ask("token", 200, append(exchange, canaries["code"])...)
	canaries["issued access token"], canaries["issued refresh token"] = fmt.Sprint(first["access_token"]), fmt.Sprint(first["refresh_token"])
	ask("introspect", 200, append(mine, "token", canaries["issued refresh token"])...)
	refresh := append(mine, "grant_type", "refresh_token", "refresh_token", canaries["issued refresh token"])
	second := ask("token", 200, refresh...)
	canaries["rotated access token"], canaries["rotated refresh token"] = fmt.Sprint(second["access_token"]), fmt.Sprint(second["refresh_token"])
	// Both are signs of theft, which is logged.
	ask("token", 400, refresh...)
	ask("token", 400, append(exchange, canaries["code"])...)
	ask("revoke", 200, append(mine, "token", canaries["rotated refresh token"])...)
}

// plantKeys presents API keys, right, renamed and wrong, in each place.
func plantKeys(client caller) {
	f.Must(201, http.MethodPost, "/services", map[string]any{"name": "canary-keys", "host": "127.0.0.1", "port": open.port()})
	f.Must(201, http.MethodPost, "/services/canary-keys/routes", map[string]any{"name": "canary-keys", "paths": []string{"/keys-of-canary"}})
	f.Must(201, http.MethodPost, "/services/canary-keys/plugins", map[string]any{"name": "key-auth", "config": map[string]any{"hide_credentials": true, "key_in_body": true}})
	key := fmt.Sprint(f.Must(201, http.MethodPost, "/consumers/canary/key-auth", map[string]any{"key": canaries["API key"]}).JSON()["id"])
	f.Converged()
	call := func(key string, want int) {
		for _, try := range []struct{ query, header, body string }{{"", key, ""}, {"?apikey=" + key, "", ""}, {"", "", "apikey=" + key}} {
			h, method := http.Header{"Content-Type": {formType}}, http.MethodPost
			if try.header != "" {
				h.Set("Apikey", try.header)
			}
			r, err := framework.Do(client.Client, method, client.base+"/keys-of-canary/x"+try.query, h, try.body)
			ExpectWithOffset(1, err).NotTo(HaveOccurred())
			ExpectWithOffset(1, r.Status).To(Equal(want), r.Body)
			if want == 200 {
				expectNone("what the upstream was told", r.Body)
			}
		}
	}
	call(canaries["API key"], 200)
	call(canaries["unknown API key"], 401)
	f.Must(200, http.MethodPatch, "/key-auths/"+key, map[string]any{"key": canaries["renamed API key"]})
	call(canaries["API key"], 401)
	call(canaries["renamed API key"], 200)
	f.Must(409, http.MethodPost, "/consumers/canary/key-auth", map[string]any{"key": canaries["renamed API key"]})
}

var _ = Describe("a secret", Ordered, func() {
	BeforeAll(plant)

	It("would be found in each of its forms", func() {
		for what, secret := range canaries {
			for shift := range 3 {
				text := strings.Repeat("{", shift+1) + secret + "}"
				for _, form := range []string{text, base64.StdEncoding.EncodeToString([]byte(text)), hex.EncodeToString([]byte(text))} {
					Expect(leak(form)).To(HavePrefix(what+": "), form)
				}
			}
		}
		Expect(leak("canary")).To(BeEmpty())
	})

	It("is in nothing that the process prints at debug level", func() {
		expectNone("the output", c.Output())
	})

	It("is in no file below the state directory", func() {
		files := 0
		Expect(filepath.WalkDir(c.StateDir, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it was replaced since its directory was read
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			files++
			if len(data) > 0 {
				expectNone(path, string(data))
			}
			info, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			if filepath.Base(path) != "ca.pem" {
				Expect(info.Mode().Perm()&0o077).To(BeZero(), "%s can be read by others", path)
			}
			return nil
		})).To(Succeed())
		Expect(files).To(BeNumerically(">=", 6), "database, its log, key, bootstrap, settings and cache")
	})

	It("is in no key and no value of Redis", func() {
		client := goredis.NewClient(&goredis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", redis.Port)})
		DeferCleanup(client.Close)
		ctx := context.Background()
		keys, err := client.Keys(ctx, "*").Result()
		Expect(err).NotTo(HaveOccurred())
		Expect(keys).NotTo(BeEmpty())
		for _, key := range keys {
			expectNone("a key of Redis", key)
			dump, err := client.Dump(ctx, key).Result()
			if errors.Is(err, goredis.Nil) {
				continue // it has expired since the keys were listed
			}
			Expect(err).NotTo(HaveOccurred())
			// Redis compresses long values in a dump, so the value itself counts too.
			value, err := client.Get(ctx, key).Result()
			if errors.Is(err, goredis.Nil) {
				continue
			}
			Expect(err).NotTo(HaveOccurred(), "every key holds a string")
			expectNone("Redis", dump+"\n"+value)
		}
	})

	It("is in nothing that Envoy's admin interface tells", func() {
		sockets, err := filepath.Glob(filepath.Join(c.StateDir, "run", "*", "admin.sock"))
		Expect(err).NotTo(HaveOccurred())
		Expect(sockets).To(HaveLen(1))
		t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", sockets[0])
		}}
		DeferCleanup(t.CloseIdleConnections)
		for _, path := range []string{"/config_dump?include_eds", "/stats", "/clusters?format=json", "/server_info", "/certs", "/listeners"} {
			r, err := framework.Do(&http.Client{Transport: t, Timeout: rawDeadline}, http.MethodGet, "http://envoy"+path, nil, "")
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Status).To(Equal(200))
			expectNone("Envoy's "+path, r.Body)
			Expect(r.Body).NotTo(ContainSubstring("BEGIN PRIVATE KEY"))
		}
	})

	It("is in nothing that the diagnostics port tells", func() {
		for _, path := range []string{"/metrics", "/debug/pprof/goroutine?debug=2", "/ready"} {
			r, err := framework.Do(f.HTTP, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", c.Diagnostics, path), nil, "")
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Status).To(Equal(200))
			expectNone(path, r.Body)
		}
	})

	It("is passed to no upstream that hides credentials", func() {
		client := clients()["HTTP/1.1"]
		r, err := framework.Do(client.Client, http.MethodGet, client.base+"/canary/x", http.Header{"Authorization": {"Bearer " + canaries["renamed access token"]}}, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(200), r.Body)
		expectNone("the upstream's request", r.Body)
	})
})

package accesslog_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

const patience = time.Minute

// line is one line of the log in the default format.
type line map[string]any

// text is a field that is a text; empty if it is absent.
func (l line) text(field string) string {
	s, _ := l[field].(string)
	return s
}

// read parses whole lines; everything that is one must be JSON.
func read(raw string) (out []line) {
	for text := range strings.Lines(raw) {
		if !strings.HasSuffix(text, "\n") {
			return out // it is being written
		}
		var l line
		ExpectWithOffset(2, json.Unmarshal([]byte(text), &l)).To(Succeed(), text)
		out = append(out, l)
	}
	return out
}

// world is a gateway with services that refuse for every reason.
type world struct {
	*framework.API
	c        *framework.ControlPlane
	upstream *framework.Upstream
	file     string
	// secrets are all credentials that were used.
	secrets []string
}

func newWorld(args ...string) *world {
	file := filepath.Join(GinkgoT().TempDir(), "access.log")
	c := framework.NewControlPlane("standalone", append([]string{"--access-log-path", file}, args...)...).Start()
	w := &world{API: c.API(), c: c, upstream: framework.StartUpstream(), file: file}
	return w
}

// lines are those of the file.
func (w *world) lines() []line {
	raw, err := os.ReadFile(w.file)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return read(string(raw))
}

// about waits for the one line of a request.
func (w *world) about(field, value string) (found line) {
	EventuallyWithOffset(1, func() (n int) {
		for _, l := range w.lines() {
			if l.text(field) == value {
				found = l
				n++
			}
		}
		return n
	}, patience, 20*time.Millisecond).Should(Equal(1), "%s %s", field, value)
	return found
}

// service makes a service with one route of the same name, and plugins on it.
func (w *world) service(name string, plugins ...map[string]any) {
	port, err := strconv.Atoi(w.upstream.Port())
	Expect(err).NotTo(HaveOccurred())
	w.Must(201, http.MethodPost, "/services", map[string]any{"name": name, "host": "127.0.0.1", "port": port})
	w.Must(201, http.MethodPost, "/services/"+name+"/routes", map[string]any{"name": name + "-route", "paths": []string{"/" + name}})
	for _, p := range plugins {
		w.Must(201, http.MethodPost, "/services/"+name+"/plugins", p)
	}
}

func oauth2(config map[string]any) map[string]any {
	all := map[string]any{"enable_client_credentials": true, "token_expiration": 3600}
	for k, v := range config {
		all[k] = v
	}
	return map[string]any{"name": "oauth2", "config": all}
}

func plugin(name string, config map[string]any) map[string]any {
	return map[string]any{"name": name, "config": config}
}

// consumer makes one with an application.
func (w *world) consumer(name string) {
	w.Must(201, http.MethodPost, "/consumers", map[string]any{"username": name})
	w.Must(201, http.MethodPost, "/consumers/"+name+"/oauth2", map[string]any{
		"name": "app", "client_id": name + "-app", "client_secret": name + "-client-secret", "redirect_uris": []string{"https://app.example/cb"},
	})
	w.secrets = append(w.secrets, name+"-client-secret")
}

// mint obtains a token of a consumer for a service.
func (w *world) mint(service, consumer string, headers ...string) string {
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {consumer + "-app"}, "client_secret": {consumer + "-client-secret"}}
	r, err := framework.Do(w.HTTP, http.MethodPost, fmt.Sprintf("https://localhost:%d/%s/oauth2/token", w.c.HTTPS, service),
		headersOf(append(headers, "Content-Type", "application/x-www-form-urlencoded")), form.Encode())
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	ExpectWithOffset(1, r.Status).To(Equal(200), r.Body)
	token, _ := r.JSON()["access_token"].(string)
	w.secrets = append(w.secrets, token)
	return token
}

// headersOf are names and values in turn.
func headersOf(list []string) http.Header {
	h := http.Header{}
	for i := 0; i < len(list); i += 2 {
		h[list[i]] = append(h[list[i]], list[i+1])
	}
	return h
}

// call sends a request to the gateway; headers are names and values in turn.
func (w *world) call(method, path string, headers ...string) *framework.Response {
	r, err := framework.Do(w.HTTP, method, fmt.Sprintf("http://127.0.0.1:%d%s", w.c.HTTP, path), headersOf(headers), "")
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return r
}

// spill fails if a credential stands in anything that was written.
func (w *world) spill() {
	texts := map[string]string{"output": w.c.Output()}
	raw, err := os.ReadFile(w.file)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	texts[w.file] = string(raw)
	for where, text := range texts {
		for _, secret := range w.secrets {
			if i := strings.Index(text, secret); i >= 0 {
				Fail(fmt.Sprintf("%s shows a credential: %s", where, text[max(0, i-200):min(len(text), i+100)]), 1)
			}
		}
	}
}

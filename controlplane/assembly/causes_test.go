package assembly

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestCausesAreForTheLog: whoever shows a token that names the issuer, which anybody can write, learns from
// no API where the issuer is and how it is reached. The log of each request says it, and the audit log that the call
// was refused.
func TestCausesAreForTheLog(t *testing.T) {
	issuer := fmt.Sprintf("http://127.0.0.1:%d/sentinel", freePort(t))
	part := base64.RawURLEncoding.EncodeToString
	token := part([]byte(`{"alg":"RS256","kid":"k"}`)) + "." + part([]byte(`{"iss":"`+issuer+`"}`)) + ".AAAA"
	var log bytes.Buffer
	var asked []string
	t.Run("ask", func(t *testing.T) { // at its end everything is logged
		cp := startServing(t, config.Config{
			Cloud:  config.Cloud{Roles: "global, regional", Hosts: "cloud.example.com"},
			Access: config.Access{OIDC: config.OIDC{Issuer: issuer, Audience: "meshgate", UserClaim: "sub"}},
		}, slog.New(slog.NewTextHandler(&log, nil)))
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: cp.authority.Pool(), MinVersion: tls.VersionTLS12}}
		defer transport.CloseIdleConnections()
		for api, url := range map[string]string{
			"admin":     fmt.Sprintf("http://127.0.0.1:%d/services", cp.AdminPort()),
			"admin-tls": fmt.Sprintf("https://localhost:%d/services", port(cp.ports.adminTLS)),
			"mesh":      fmt.Sprintf("http://127.0.0.1:%d/meshes", cp.MeshPort()),
			"mesh-tls":  fmt.Sprintf("https://localhost:%d/meshes", cp.MeshTLSPort()),
			"cloud":     fmt.Sprintf("http://127.0.0.1:%d/v2/control-planes", cp.CloudPort()),
			"cloud-tls": fmt.Sprintf("https://localhost:%d/v2/control-planes", port(cp.ports.cloudTLS)),
		} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set(httpkit.HeaderRequestID, api)
			asked = append(asked, api)
			a, err := (&http.Client{Transport: transport}).Do(r)
			if err != nil {
				t.Errorf("%s: %v", api, err)
				continue
			}
			body, err := io.ReadAll(a.Body)
			_ = a.Body.Close()
			if err != nil || a.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("%s: %d %v", api, a.StatusCode, err)
			}
			for _, secret := range []string{"sentinel", "dial", "127.0.0.1"} {
				if strings.Contains(string(body), secret) {
					t.Errorf("%s answers %s", api, body)
				}
			}
		}
		for name, identify := range map[string]func(*http.Request) (model.Actor, error){
			"mesh": cp.callers().Identify, "admin": cp.identifyAdmin, "cloud": cp.identifyCloud,
		} {
			told := 0
			refuse := func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusServiceUnavailable) }
			h := httpkit.Administered(name, func(r httpkit.Refusal) {
				if told++; !r.IssuerAway || r.Status != http.StatusServiceUnavailable {
					t.Errorf("%s tells of %+v", name, r)
				}
			}, httpkit.Identified(identify, refuse, http.NotFoundHandler()))
			r := httptest.NewRequest(http.MethodGet, "https://cp.example/", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			if httpkit.Observe(h, slog.New(slog.DiscardHandler)).ServeHTTP(httptest.NewRecorder(), r); told != 1 {
				t.Errorf("%s tells the audit log of %d refusals", name, told)
			}
		}
	})
	for _, api := range asked {
		told := false
		for line := range strings.Lines(log.String()) {
			told = told || strings.Contains(line, "request_id="+api+" ") && strings.Contains(line, "sentinel") && strings.Contains(line, "dial tcp")
		}
		if !told {
			t.Errorf("the log does not say why %s answers 503", api)
		}
	}
}

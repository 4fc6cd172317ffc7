package module

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// A fault in Go refuses its request and nothing else.
func TestPanicRefusesAndEnvoyLives(t *testing.T) {
	w := newWorld(t, options{lib: faultDir})
	for _, path := range []string{"/fault/panic", "/fault/index", "/fault/nil"} {
		if a := w.get(t, path, "Authorization", bearer); a.status != http.StatusServiceUnavailable {
			t.Errorf("%s: %+v", path, a)
		}
	}
	w.get(t, "/", "Authorization", bearer).seen(t)
	w.envoy.alive(t)
	eventually(t, "Envoy's log has the panic", func() bool {
		return strings.Contains(w.envoy.output(), "panic recovered")
	})
}

// Something in Go writes to standard error whose reader has gone.
func TestClosedStandardErrorIsSurvived(t *testing.T) {
	r, closedEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	defer closing(t, closedEnd)
	w := newWorld(t, options{lib: faultDir, stderr: closedEnd})
	for range 3 {
		w.get(t, "/fault/stderr", "Authorization", bearer).seen(t)
	}
	w.envoy.alive(t)
}

// A chain that does not parse refuses its own route and not the configuration.
func TestBadChainRefusesItsRoute(t *testing.T) {
	w := newWorld(t, options{edit: func(config object) {
		for path, chain := range map[string]string{"/garbage": "{", "/empty": "", "/unknown": `{"route":"r","plugins":[{"id":"p","key_auth":{}}]}`} {
			addRoute(config, object{
				"match": object{"prefix": path}, "route": object{"cluster": "upstream"},
				"typed_per_filter_config": chained(chain),
			})
		}
	}})
	for _, path := range []string{"/garbage", "/empty", "/unknown"} {
		if a := w.get(t, path, "Authorization", bearer); a.status != http.StatusServiceUnavailable {
			t.Errorf("%s: %+v", path, a)
		}
	}
	w.get(t, "/", "Authorization", bearer).seen(t)
}

// Left to Envoy a refused gRPC call would end with grpc-status 0.
func TestRefusedGRPCCallDoesNotLookSuccessful(t *testing.T) {
	w := newWorld(t, options{lib: faultDir})
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	w.client = newClient(t, tr)
	for _, tt := range []struct{ path, contentType, status string }{
		{"/pkg.Service/Method", "application/grpc", "16"},
		{"/pkg.Service/Method", "application/grpc+proto", "16"},
		{"/fault/panic", "application/grpc", "14"},
	} {
		r := w.request(t.Context(), t, http.MethodPost, tt.path, strings.NewReader("\x00\x00\x00\x00\x00"),
			"Content-Type", tt.contentType, "TE", "trailers")
		if a := w.do(t, r); a.header.Get("Grpc-Status") != tt.status {
			t.Errorf("%s %s: grpc-status %q, want %s", tt.path, tt.contentType, a.header.Get("Grpc-Status"), tt.status)
		}
	}
	r := w.request(t.Context(), t, http.MethodPost, "/", nil, "Content-Type", "application/grpc-web")
	if a := w.do(t, r); a.status != http.StatusUnauthorized {
		t.Errorf("grpc-web: %+v", a)
	}
}

// A settings file that is not there yet refuses requests, and is taken as soon
// as it is.
func TestSettingsFileMayComeLate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "filter.json")
	var settings string
	w := newWorld(t, options{env: []string{contract.SettingsEnv + "=" + file}, edit: func(config object) {
		redis := at(filterConfig(config), "settings", "redis", "url").(string)
		settings = `{"redis":{"url":"` + redis + `"},"cache":{}}`
		delete(filterConfig(config), "settings")
	}})
	if a := w.get(t, "/", "Authorization", bearer); a.status != http.StatusServiceUnavailable {
		t.Errorf("without settings: %+v", a)
	}
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the settings are used", func() bool {
		return w.get(t, "/", "Authorization", bearer).status == http.StatusOK
	})
}

package enrol

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/filter/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an enrolment server with a token for cp/default/gw.
type world struct {
	*Server
	token string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := memstore.New()
	t.Cleanup(func() { _ = s.Close() })
	tokens, err := identity.OpenTokens(t.Context(), s, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	w.Server = &Server{Store: s, Writer: admit.New(s, &admittest.Revoker{}, gateway.Kinds(), time.Now), Tokens: tokens}
	if w.token, err = tokens.Gateway("default", "gw", time.Hour); err != nil {
		t.Fatal(err)
	}
	return w
}

// stored returns the stored instance of cp/default/gw.
func (w *world) stored(t *testing.T) *model.Resource {
	t.Helper()
	var res *model.Resource
	err := w.Store.View(t.Context(), func(r store.Reader) (err error) {
		res, err = r.Get(gateway.Instances, "default", "gw")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

const good = `{"listen":"0.0.0.0","http_port":8000,"https_port":8443,"control_plane":"127.0.0.1:5678"}`

// TestRefusals sends requests that must be refused, and checks that nothing was stored.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	bearer := "Bearer " + w.token
	for _, test := range []struct {
		name, method, auth, body string
		status                   int
		message                  string
	}{
		{"GET", "GET", bearer, "", 405, "only POST is supported"},
		{"no token", "POST", "", good, 401, "the node token is empty"},
		{"not a token", "POST", "Bearer x", good, 401, "the node token is not a token"},
		{"no body", "POST", bearer, "", 422, "the enrolment is not valid: unexpected end of JSON input"},
		{"not JSON", "POST", bearer, "listen: all", 422, "the enrolment is not valid: invalid character 'l' looking for beginning of value"},
		{"unknown field", "POST", bearer, `{"lisen":""}`, 422, `the input is not valid: lisen: unknown field; did you mean "listen"?; listen: must be an IP address; http_port: must be a port; https_port: must be a port; control_plane: must be host:port`},
		{"too large", "POST", bearer, `{"listen":"` + strings.Repeat("x", maxBody) + `"}`, 413, "the enrolment is too large"},
		{"empty", "POST", bearer, `{}`, 422, "the input is not valid: listen: must be an IP address; http_port: must be a port; https_port: must be a port; control_plane: must be host:port"},
		{"a name to listen on", "POST", bearer, change("listen", "localhost"), 422, "the input is not valid: listen: must be an IP address"},
		{"port 0", "POST", bearer, change("http_port", 0), 422, "the input is not valid: http_port: must be a port"},
		{"negative port", "POST", bearer, change("https_port", -1), 422, "the input is not valid: https_port: must be a port"},
		{"port too high", "POST", bearer, change("https_port", 65536), 422, "the input is not valid: https_port: must be a port"},
		{"control plane without port", "POST", bearer, change("control_plane", "cp"), 422, "the input is not valid: control_plane: must be host:port"},
		{"control plane without host", "POST", bearer, change("control_plane", ":5678"), 422, "the input is not valid: control_plane: must be host:port"},
		{"control plane at a named port", "POST", bearer, change("control_plane", "cp:https"), 422, "the input is not valid: control_plane: must be host:port"},
		{"roots at a path of nobody", "POST", bearer, change("roots_file", "pem"), 422, "the input is not valid: roots_file: must be an absolute path"},
		{"roots with a line break", "POST", bearer, change("roots_file", "/a\nb"), 422, "the input is not valid: roots_file: must be an absolute path"},
		{"a filter of nobody", "POST", bearer, change("filter", "module"), 422, "the input is not valid: filter: must be a filter.mode that this control plane knows: let it be no older than its gateways"},
		{"control plane at port 0", "POST", bearer, change("control_plane", "cp:0"), 422, "the input is not valid: control_plane: must be host:port"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(test.method, Path, strings.NewReader(test.body))
			r.Header.Set("Authorization", test.auth)
			rec := httptest.NewRecorder()
			w.ServeHTTP(rec, r)
			var doc struct{ Message string }
			if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
				t.Fatalf("%s: %v", rec.Body, err)
			}
			if rec.Code != test.status || doc.Message != test.message {
				t.Errorf("%d %q, want %d %q", rec.Code, doc.Message, test.status, test.message)
			}
		})
	}
	err := w.Store.View(t.Context(), func(r store.Reader) error {
		_, err := r.Get(gateway.Instances, "default", "gw")
		return err
	})
	if err == nil {
		t.Error("a refused node is remembered")
	}
}

// change returns the good body with one field changed.
func change(field string, value any) string {
	m := map[string]any{}
	if err := json.Unmarshal([]byte(good), &m); err != nil {
		panic(err)
	}
	m[field] = value
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// broken is a store that fails for a reason that must not be visible outside.
type broken struct {
	store.Store
	err error
}

func (b broken) Update(context.Context, model.Class, func(store.Tx) error) (store.Commit, error) {
	return store.Commit{}, b.err
}

// TestInternal: the cause of an error is hidden from the node and logged, even that of a
// coded error that a node cannot react to.
func TestInternal(t *testing.T) {
	for _, err := range []error{errors.New("disk 7 is on fire"), fault.New(fault.Conflict, "row 7 moved")} {
		internal(t, err)
	}
}

func internal(t *testing.T, cause error) {
	w := newWorld(t)
	w.Writer = admit.New(broken{w.Store, cause}, &admittest.Revoker{}, gateway.Kinds(), time.Now)
	var log strings.Builder
	r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(good))
	r.Header.Set("Authorization", "Bearer "+w.token)
	rec := httptest.NewRecorder()
	httpkit.Observe(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.ServeHTTP(rw, r)
		log.WriteString(httpkit.EntryOf(r.Context()).Cause.Error())
	}), slog.New(slog.DiscardHandler)).ServeHTTP(rec, r)
	if want := `{"message":"` + httpkit.TextInternal + `"}`; rec.Code != 500 || rec.Body.String() != want {
		t.Errorf("%d %s, want 500 %s", rec.Code, rec.Body, want)
	}
	if log.String() != cause.Error() {
		t.Errorf("the log has %q", log.String())
	}
}

// TestEnrol enrols through the client: the first time, again without a change (which writes
// nothing), and with a change. The callback finds the instance stored.
func TestEnrol(t *testing.T) {
	w := newWorld(t)
	var told []int
	w.Enrolled = func(_ context.Context, node string) {
		if node != "cp/default/gw" {
			t.Errorf("%s has enrolled", node)
		}
		told = append(told, w.stored(t).Spec.(*gateway.Instance).HTTPPort)
	}
	server := httptest.NewTLSServer(w)
	defer server.Close()
	in := gateway.Instance{Listen: "0.0.0.0", HTTPPort: 8000, HTTPSPort: 8443, ControlPlane: "127.0.0.1:5678"}
	enrol := func() *model.Resource {
		t.Helper()
		a, err := Enrol(t.Context(), server.Client(), server.URL, w.token, "cp/default/gw", "", false, in)
		if err != nil {
			t.Fatal(err)
		}
		want := &Answer{Node: "cp/default/gw"}
		if diff := cmp.Diff(want, a); diff != "" {
			t.Fatal(diff)
		}
		res := w.stored(t)
		if diff := cmp.Diff(&in, res.Spec); diff != "" {
			t.Fatal(diff)
		}
		return res
	}
	first := enrol()
	if again := enrol(); again != first {
		t.Errorf("version %d was written without a change, after %d", again.Version, first.Version)
	}
	in.HTTPPort = 8080
	if changed := enrol(); changed.Version != first.Version+1 {
		t.Errorf("version %d after a change, was %d", changed.Version, first.Version)
	}
	if diff := cmp.Diff([]int{8000, 8000, 8080}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// TestTakenName: a second gateway comes with the name of a connected one. The addresses of
// the connected gateway do not change. An agent that started while the control plane was
// away says so and is accepted as the same gateway, and so is one with the known addresses.
func TestTakenName(t *testing.T) {
	w := newWorld(t)
	connected := false
	w.Connected = func(node string) bool { return node == "cp/default/gw" && connected }
	server := httptest.NewTLSServer(w)
	defer server.Close()
	in := gateway.Instance{Listen: "127.0.0.1", HTTPPort: 8000, HTTPSPort: 8443, ControlPlane: "127.0.0.1:5678"}
	enrol := func(running bool, port int) error {
		in.HTTPPort = port
		_, err := Enrol(t.Context(), server.Client(), server.URL, w.token, "cp/default/gw", "", running, in)
		return err
	}
	for _, step := range []struct {
		connected, running bool
		port, stored       int
		refused            string
	}{
		{false, false, 8000, 8000, ""},
		{true, false, 8000, 8000, ""},
		{true, false, 7000, 8000, "the control plane refused the enrolment with 422: cp/default/gw is connected and listens on 127.0.0.1, ports 8000 and 8443: give another gateway a name (--name) and a token of its own; to give this one other ports, stop it first"},
		{true, true, 7000, 7000, ""},
		{false, false, 8000, 8000, ""},
	} {
		connected = step.connected
		text := ""
		if err := enrol(step.running, step.port); err != nil {
			text = err.Error()
		}
		if got := w.stored(t).Spec.(*gateway.Instance).HTTPPort; text != step.refused || got != step.stored {
			t.Errorf("%+v: port %d is stored, %q", step, got, text)
		}
	}
}

// TestTakenFilter: while a gateway is connected, another one with its name cannot have its
// configuration made for another mode of the filter.
func TestTakenFilter(t *testing.T) {
	w := newWorld(t)
	connected := false
	w.Connected = func(string) bool { return connected }
	server := httptest.NewTLSServer(w)
	defer server.Close()
	in := gateway.Instance{Listen: "127.0.0.1", HTTPPort: 8000, HTTPSPort: 8443, ControlPlane: "127.0.0.1:5678"}
	for _, step := range []struct {
		connected    bool
		mode, stored contract.Mode
		refused      string
	}{
		{false, contract.ModeExtAuthz, contract.ModeExtAuthz, ""},
		{true, contract.ModeModule, contract.ModeExtAuthz, "cp/default/gw is connected with filter.mode extauthz"},
		{false, contract.ModeModule, contract.ModeModule, ""},
	} {
		connected, in.Filter = step.connected, step.mode
		_, err := Enrol(t.Context(), server.Client(), server.URL, w.token, "cp/default/gw", "", false, in)
		if (err == nil) != (step.refused == "") || err != nil && !strings.Contains(err.Error(), step.refused) {
			t.Errorf("%+v: %v", step, err)
		}
		if got := w.stored(t).Spec.(*gateway.Instance).Filter; got != step.stored {
			t.Errorf("%+v: %s is stored", step, got)
		}
	}
}

// TestClientErrors distinguishes refusals, which are final, from temporary failures.
func TestClientErrors(t *testing.T) {
	for _, test := range []struct {
		name    string
		status  int
		body    string
		refused *Refused
		text    string
	}{
		{"refused", 401, `{"message":"no"}` + "\n", &Refused{401, "no"}, "the control plane refused the enrolment with 401: no"},
		{"refused with violations", 422, `{"message":"no","violations":[{"message":"x"}]}`, &Refused{422, `{"message":"no","violations":[{"message":"x"}]}`}, `the control plane refused the enrolment with 422: {"message":"no","violations":[{"message":"x"}]}`},
		{"redirected", 304, "", &Refused{304, ""}, "the control plane refused the enrolment with 304: "},
		{"unavailable", 503, `{"message":"later"}`, nil, "the control plane cannot enrol nodes now: it answered 503: later"},
		{"failed", 500, "stack", nil, "the control plane cannot enrol nodes now: it answered 500"},
		{"not JSON", 200, "hello", nil, "the control plane's answer cannot be read: invalid character 'h' looking for beginning of value"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if want := "Bearer tok"; err != nil || r.Method != http.MethodPost || r.URL.Path != Path || r.Header.Get("Authorization") != want || !json.Valid(body) {
					t.Errorf("%s %s %q %s %v", r.Method, r.URL, r.Header, body, err)
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			}))
			defer server.Close()
			_, err := Enrol(t.Context(), server.Client(), server.URL, "tok", "cp/default/gw", "", false, gateway.Instance{})
			if err == nil || err.Error() != test.text {
				t.Errorf("%v, want %s", err, test.text)
			}
			got, _ := errors.AsType[*Refused](err)
			if diff := cmp.Diff(test.refused, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("away", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		server.Close()
		_, err := Enrol(t.Context(), server.Client(), server.URL, "tok", "cp/default/gw", "", false, gateway.Instance{})
		if _, refused := errors.AsType[*Refused](err); err == nil || refused {
			t.Errorf("%v", err)
		}
	})
	t.Run("no address", func(t *testing.T) {
		if _, err := Enrol(t.Context(), http.DefaultClient, "https://[::1", "tok", "cp/default/gw", "", false, gateway.Instance{}); err == nil {
			t.Error("no error")
		}
	})
}

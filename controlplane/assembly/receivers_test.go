package assembly

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// sender is a control plane that sends its own audit log.
type sender struct {
	*ControlPlane
	t     *testing.T
	token string
}

func newSender(t *testing.T, allowed string) *sender {
	t.Helper()
	cp := startServing(t, config.Config{Cloud: config.Cloud{Roles: "global, regional"}, Audit: config.Audit{AllowedNetworks: allowed}}, slog.New(slog.DiscardHandler))
	token, err := cp.NewAccessToken(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	return &sender{cp, t, token}
}

func (s *sender) ask(method, path, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://127.0.0.1:"+strconv.Itoa(s.CloudPort())+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.token)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

// save asks for a destination.
func (s *sender) save(endpoint string) (int, string) {
	s.t.Helper()
	return s.ask("POST", "/v2/audit-log-destinations", fmt.Sprintf(`{"name":%q,"endpoint":%q,"authorization":"x","log_format":"json","skip_ssl_verification":true}`, uuid.NewString(), endpoint))
}

// sends stores a destination as if its endpoint were a name, which nobody judges before it is connected to, sends the
// log there, of which that is an event, and returns what its status says of the first attempt.
func (s *sender) sends(endpoint string) string {
	s.t.Helper()
	id := uuid.NewString()
	if _, err := s.gate.As(model.System("audit")).Write(s.t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: cloud.Destinations, Name: id, Spec: &cloud.Destination{
			Name: id, Endpoint: endpoint, Authorization: "x", LogFormat: cloud.FormatJSON, SkipSSLVerification: true,
		}})
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
	tried := make(chan struct{}, 1)
	defer s.commits.Listen(func(store.Commit) {
		select {
		case tried <- struct{}{}:
		default: // one look is enough for both
		}
	})()
	if status, text := s.ask("PATCH", "/v2/audit-log-webhook", `{"enabled":true,"audit_log_destination_id":"`+id+`"}`); status != http.StatusOK {
		s.t.Fatal(status, text)
	}
	for {
		_, text := s.ask("GET", "/v2/audit-log-webhook/status", "")
		if strings.Contains(text, "last_attempt_at") {
			return text
		}
		select {
		case <-tried:
		case <-s.t.Context().Done():
			s.t.Fatal(text)
		}
	}
}

const notAllowed = "the address is not allowed"

// listener is a receiver on this machine, and how many requests it has had.
func listener(t *testing.T) (url string, arrived *atomic.Int64) {
	t.Helper()
	arrived = &atomic.Int64{}
	r := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
	t.Cleanup(r.Close)
	return r.URL, arrived
}

// TestNoReceiverOnThisMachine: as it comes, nothing is sent to this machine, and the status of the webhook says why.
// An endpoint that is written as an address is refused when it is saved.
func TestNoReceiverOnThisMachine(t *testing.T) {
	s := newSender(t, "")
	url, arrived := listener(t)
	if status, text := s.save(url); status != http.StatusBadRequest || !strings.Contains(text, `"field":"endpoint","reason":"`+notAllowed+`"`) {
		t.Errorf("it is saved: %d %s", status, text)
	}
	if got := s.sends(url); !strings.Contains(got, `"last_response_message":"`+notAllowed+`"`) {
		t.Errorf("the status is %s", got)
	}
	if n := arrived.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

// TestNoReceiverAtOwnPorts: where this machine is allowed, the ports of the control plane itself are not, and those
// beside them are.
func TestNoReceiverAtOwnPorts(t *testing.T) {
	s := newSender(t, "127.0.0.0/8")
	own := map[string]int{
		"data": port(s.ports.data), "diagnostics": port(s.ports.diagnostics), "mesh": port(s.ports.mesh), "mesh TLS": port(s.ports.meshTLS),
		"admin": port(s.ports.admin), "admin TLS": port(s.ports.adminTLS), "cloud": port(s.ports.cloud), "cloud TLS": port(s.ports.cloudTLS),
		"redis": s.redis.embedded.Port(),
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		for _, host := range []string{"127.0.0.1", "127.9.9.9"} {
			url := fmt.Sprintf("https://%s:%d/", host, own[name])
			if status, text := s.save(url); status != http.StatusBadRequest || !strings.Contains(text, `"field":"endpoint","reason":"`+notAllowed+`"`) {
				t.Errorf("%s at %s is saved: %d %s", name, host, status, text)
			}
			if got := s.sends(url); !strings.Contains(got, `"last_response_message":"`+notAllowed+`"`) {
				t.Errorf("the status of %s at %s is %s", name, host, got)
			}
		}
	}
	url, arrived := listener(t)
	if status, text := s.save(url); status != http.StatusOK {
		t.Errorf("it is not saved: %d %s", status, text)
	}
	if got := s.sends(url); !strings.Contains(got, `"last_response_code":200`) || arrived.Load() == 0 {
		t.Errorf("%d requests arrived, the status is %s", arrived.Load(), got)
	}
}

// TestInactiveIsCounted: a webhook that turns inactive is counted at the diagnostics port.
func TestInactiveIsCounted(t *testing.T) {
	s := newSender(t, "127.0.0.0/8")
	counted := func() string {
		t.Helper()
		a, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", port(s.ports.diagnostics))) //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = a.Body.Close() }()
		text, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), "\nmeshgate_audit_webhook_failures_total ")
		value, _, _ := strings.Cut(after, "\n")
		return value
	}
	if got := counted(); got != "0" {
		t.Errorf("before: %q", got)
	}
	r := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(r.Close)
	if got := s.sends(r.URL); !strings.Contains(got, `"webhook_status":"inactive"`) || !strings.Contains(got, `"last_response_code":404`) {
		t.Errorf("the status is %s", got)
	}
	for deadline := time.Now().Add(conditionPatience); counted() != "1"; time.Sleep(time.Millisecond) { // a moment after the status
		if time.Now().After(deadline) {
			t.Fatalf("after: %q", counted())
		}
	}
}

// TestAddressesOfThisMachine: all that its interfaces have are its own, also those that others reach.
func TestAddressesOfThisMachine(t *testing.T) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	own := []netip.Addr{netip.MustParseAddr("127.9.9.9"), netip.IPv4Unspecified(), netip.IPv6Unspecified(), netip.IPv6Loopback()}
	for _, n := range list {
		own = append(own, netip.MustParsePrefix(n.String()).Addr().Unmap())
	}
	for _, a := range own {
		if !ofThisMachine(a) {
			t.Errorf("%s is of another machine", a)
		}
	}
	for _, text := range []string{"8.8.8.8", "2001:db8::8"} {
		if a := netip.MustParseAddr(text); ofThisMachine(a) && !slices.Contains(own, a) {
			t.Errorf("%s is of this machine", text)
		}
	}
}

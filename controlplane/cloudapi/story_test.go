package cloudapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/audit/audittest"
	"github.com/meshgate/meshgate/controlplane/audit/delivery"
	"github.com/meshgate/meshgate/controlplane/audit/trail"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/lease"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/outward"
	"github.com/meshgate/meshgate/controlplane/steady"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/notice"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// siem takes events over HTTPS and verifies them with the published key.
type siem struct {
	*httptest.Server
	// format is the one that it reads, and zipped says that bodies have to be compressed.
	format string
	zipped bool

	mu    sync.Mutex
	away  bool
	lines []map[string]any // texts, whatever they are in a line
	bad   []string
	key   ed25519.PublicKey
	// refused are the bodies of requests while it is away, as they came.
	refused []string
}

func newSIEM(t *testing.T) *siem { return newSIEMOf(t, cloud.FormatJSON, false) }

func newSIEMOf(t *testing.T, format string, zipped bool) *siem {
	s := &siem{format: format, zipped: zipped}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.take))
	t.Cleanup(s.Close)
	return s
}

func (s *siem) take(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	encoding := ""
	if s.zipped {
		encoding = "gzip"
	}
	if err != nil || r.Method != http.MethodPost || r.Header.Get("Authorization") != "Basic c2VjcmV0" || r.Header.Get("Content-Type") != "text/plain" || r.Header.Get("Content-Encoding") != encoding {
		s.bad = append(s.bad, fmt.Sprint(err, r.Method, r.Header))
	}
	if s.away {
		s.refused = append(s.refused, string(body))
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if s.zipped {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err == nil {
			body, err = io.ReadAll(z)
		}
		if err != nil {
			s.bad = append(s.bad, err.Error())
		}
	}
	if !bytes.HasSuffix(body, []byte("\n")) {
		s.bad = append(s.bad, "the last line has no end")
	}
	for line := range strings.Lines(string(body)) {
		s.note(strings.TrimSuffix(line, "\n"))
	}
}

// note reads an event, and verifies its signature: it is over the line without its own member.
func (s *siem) note(line string) {
	read, before, after := fromJSON, `"sig":"`, `",`
	if s.format == cloud.FormatCEF {
		read, before, after = fromCEF, " sig=", ""
	}
	fields, err := read(line)
	text := fmt.Sprint(fields["sig"])
	signed := strings.Replace(line, before+text+after, "", 1)
	sig, undecoded := base64.RawURLEncoding.DecodeString(text)
	if err := errors.Join(err, undecoded); err != nil {
		s.bad = append(s.bad, err.Error()+" in "+line)
	}
	if s.key != nil && !ed25519.Verify(s.key, []byte(signed), sig) {
		s.bad = append(s.bad, "the signature of "+line)
	}
	s.lines = append(s.lines, fields)
}

func fromJSON(line string) (map[string]any, error) {
	fields := map[string]any{}
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	err := d.Decode(&fields)
	for name, value := range fields {
		fields[name] = fmt.Sprint(value)
	}
	return fields, err
}

// fromCEF names the fields of the header as those of JSON.
func fromCEF(line string) (map[string]any, error) {
	fields := map[string]any{}
	c, err := audittest.ParseCEF(line)
	if err != nil {
		return fields, err
	}
	for name, value := range c.Extension {
		fields[name] = value
	}
	for i, name := range []string{"cef_version", "event_vendor", "event_product", "event_version", "event_class_id", "name", "severity"} {
		fields[name] = c.Header[i]
	}
	return fields, nil
}

func (s *siem) set(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// names are the outcomes of the events that have arrived.
func (s *siem) names() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.lines {
		list = append(list, strings.TrimPrefix(fmt.Sprint(line["name"]), "AUTHENTICATION_OUTCOME_"))
	}
	return list
}

// looked is a store that counts how often somebody has looked into it.
type looked struct {
	store.Store
	looks atomic.Int64
}

func (l *looked) View(ctx context.Context, fn func(store.Reader) error) error {
	defer l.looks.Add(1)
	return l.Store.View(ctx, fn)
}

// answering is an API as a server.
type answering struct {
	*httptest.Server
	// trail is the store in which the audit log looks whether somebody wants to know of refused calls.
	trail *looked
}

// unwanted makes a refused call while nobody wants to know of it, and waits until that is found out: it is a moment
// after the answer.
func (a answering) unwanted(t *testing.T, refused func()) {
	t.Helper()
	before := a.trail.looks.Load()
	refused()
	eventually(t, "a look whether refusals are wanted", func() bool { return a.trail.looks.Load() > before })
}

// whole is the API with its database and its deliveries, as a server.
func whole(t *testing.T, s *siem) answering {
	t.Helper()
	dir := t.TempDir()
	keys, err := seal.Make(filepath.Join(dir, "encryption.key"), "")
	if err != nil {
		t.Fatal(err)
	}
	clock := &swift{}
	log := slog.New(slog.DiscardHandler)
	kinds := slices.Concat(cloud.Kinds(), lease.Kinds())
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "cloud.db"), Kinds: kinds, Sealer: keys, Log: log, Now: clock.now})
	if err != nil {
		t.Fatal(err)
	}
	told := notice.New(db)
	gate := admit.New(told, &admittest.Revoker{}, kinds, clock.now)
	trails := &looked{Store: db}
	own := trail.New(trail.Options{Store: trails, Log: log, Now: clock.now, Organization: "org", Rest: clock.rest})
	gate.Report(own.Changed)
	own.Writer = gate.As(model.System("audit"))
	sign := signer(t)
	to := outward.Options{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	client := outward.New(to)
	engine := delivery.New(delivery.Options{
		Store: db, Writer: gate.As(model.System("audit")), Origin: audit.Origin{Vendor: "Example", Host: "cloud.example"}, Signer: sign, Verifying: client, Trusting: client, Gzip: s.zipped, Log: log, Now: clock.now, Rest: clock.rest,
		Clock: steady.New(nil), Commits: told, Leases: lease.New(lease.Options{Writer: gate.As(model.System("audit")), Holder: "test", Sole: true}),
	})
	api := New(Options{
		Store: db, Gate: gate, Log: log, Now: clock.now, Vendor: "meshgate", Global: true, Regional: true, Accounts: accounts(db, gate, clock.now), PortalDomain: "portals.example", Signer: sign,
		Rules: access.New(access.Options{Identified: true, RolesOnly: true}), Refused: own.Refused, Foresee: to.Foresee,
		Identify: func(r *http.Request) (model.Actor, error) {
			switch token, _ := httpkit.TokenOf(r); token {
			case "admin":
				return model.Administrator(), nil
			case "vera":
				return model.User("vera"), nil
			case "":
				return model.Anonymous(), nil
			}
			return model.Actor{}, fault.New(fault.Denied, "no such token")
		},
	})
	server := httptest.NewServer(httpkit.Observe(api.Handler(), log))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	go func() { done <- own.Run(ctx) }()
	t.Cleanup(func() {
		server.Close()
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		client.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return answering{server, trails}
}

// swift is a clock that goes on by itself, and jumps over the waits between attempts. Longer pauses last
// until settings change.
type swift struct {
	mu   sync.Mutex
	more time.Duration
}

func (c *swift) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.more)
}

// rest takes no time. Where the engine waits for something to happen, it does.
func (c *swift) rest(ctx context.Context, d time.Duration) error {
	if d >= 10*time.Second {
		<-ctx.Done()
	} else if d > delivery.Window {
		c.mu.Lock()
		c.more += d
		c.mu.Unlock()
	}
	return ctx.Err()
}

// call sends a request and returns the answer.
func call(t *testing.T, method, url, body string) (int, map[string]any) {
	t.Helper()
	return callAs(t, "admin", method, url, body)
}

func callAs(t *testing.T, token, method, url, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Firefox = 1|2")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	doc := map[string]any{}
	_ = json.Unmarshal(raw, &doc)
	return resp.StatusCode, doc
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

// TestFromLoginToReceiver: a developer logs in, and the receiver gets the signed event; after an outage
// it gets what happened meanwhile, in order; a replay brings all of it once more.
func TestFromLoginToReceiver(t *testing.T) {
	for _, format := range []string{cloud.FormatJSON, cloud.FormatCEF} {
		for _, zipped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, compressed %v", format, zipped), func(t *testing.T) {
				defer http.DefaultClient.CloseIdleConnections()
				tellStory(t, newSIEMOf(t, format, zipped))
			})
		}
	}
}

func tellStory(t *testing.T, s *siem) {
	c := whole(t, s)
	must := func(want int, method, path, body string) map[string]any {
		t.Helper()
		status, doc := call(t, method, c.URL+path, body)
		if status != want {
			t.Fatalf("%s %s: %d %v", method, path, status, doc)
		}
		return doc
	}
	key := must(200, "GET", "/v2/audit-log-webhook/jwks.json", "")["keys"].([]any)[0].(map[string]any)["x"].(string)
	s.key, _ = base64.RawURLEncoding.DecodeString(key)
	id := must(200, "POST", destinations, fmt.Sprintf(`{"name":"siem","endpoint":%q,"authorization":"Basic c2VjcmV0","log_format":%q}`, s.URL, s.format))["id"]
	portal := must(201, "POST", portalsPath, `{"name":"docs"}`)["id"].(string)
	at := portalsPath + "/" + portal
	dev := must(201, "POST", at+"/developers", `{"email":"ada@example.com","full_name":"Ada","password":"correct horse"}`)["id"]
	must(200, "PATCH", at+hookPath, fmt.Sprintf(`{"enabled":true,"audit_log_destination_id":%q}`, id))
	site := "/portals/" + portal + siteBase
	login := func(want int, email, password string) {
		t.Helper()
		must(want, "POST", site+"/authenticate", fmt.Sprintf(`{"username":%q,"password":%q}`, email, password))
	}
	arrived := func(want ...string) {
		t.Helper()
		eventually(t, fmt.Sprint(want), func() bool { return len(s.names()) >= len(want) })
		if got := s.names(); !slices.Equal(got, want) {
			t.Fatalf("%v arrived, want %v", got, want)
		}
	}
	login(204, "ada@example.com", "correct horse")
	arrived("SUCCESS")
	event := s.lines[0]
	for member, want := range map[string]any{
		"cef_version": "0", "event_class_id": "AUTHENTICATION_TYPE_BASIC", "event_product": "Dev-Portal", "event_vendor": "Example", "event_version": "1.0", "org_id": "org",
		"portal_id": portal, "principal_id": dev, "request": site + "/authenticate", "severity": "0", "src": "127.0.0.1", "success": "true", "user_agent": "Firefox = 1|2",
	} {
		if event[member] != want {
			t.Errorf("%s is %q, want %q", member, event[member], want)
		}
	}
	s.set(true)
	login(401, "ada@example.com", "wrong")
	eventually(t, "inactive", func() bool { return must(200, "GET", at+hookPath+"/status", "")["webhook_status"] == "inactive" })
	if doc := must(200, "GET", at+hookPath+"/status", ""); doc["last_response_code"] != 500.0 || doc["webhook_enabled"] != true {
		t.Errorf("%v", doc)
	}
	s.mu.Lock()
	if n := len(s.refused); n != 5 || len(slices.Compact(slices.Clone(s.refused))) != 1 {
		t.Errorf("%d requests until then, which are not all the same: %q", n, s.refused)
	}
	s.mu.Unlock()
	login(401, "bob@example.com", "wrong")
	s.set(false)
	login(204, "ada@example.com", "correct horse")
	must(200, "PATCH", destinations+"/"+id.(string), fmt.Sprintf(`{"endpoint":%q,"authorization":"Basic c2VjcmV0"}`, s.URL+"/back")) // ends the pause
	arrived("SUCCESS", "INVALID_PASSWORD", "NOT_FOUND", "SUCCESS")
	eventually(t, "active", func() bool { return must(200, "GET", at+hookPath+"/status", "")["webhook_status"] == "active" })
	must(202, "PUT", at+"/audit-log-replay-job", fmt.Sprintf(`{"start_at":%q,"end_at":%q}`, stamp(time.Now().Add(-time.Hour)), stamp(time.Now().Add(45*time.Second))))
	arrived("SUCCESS", "INVALID_PASSWORD", "NOT_FOUND", "SUCCESS", "SUCCESS", "INVALID_PASSWORD", "NOT_FOUND", "SUCCESS")
	eventually(t, "completed", func() bool { return must(200, "GET", at+"/audit-log-replay-job", "")["status"] == "completed" })
	for i := range 4 {
		if s.lines[i]["event_id"] != s.lines[i+4]["event_id"] {
			t.Errorf("event %d has another id when it comes again", i)
		}
	}
	must(204, "DELETE", at+"?force=true", "")
	if s.mu.Lock(); len(s.bad) > 0 {
		t.Errorf("%v", s.bad)
	}
	s.mu.Unlock()
}

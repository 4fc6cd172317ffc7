package audit

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/meshgate/meshgate/controlplane/audit/audittest"
)

var origin = Origin{Vendor: "Meshgate", Host: "portal.example"}

func signer(t testing.TB) *Signer {
	t.Helper()
	keys := []ed25519.PrivateKey{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))}
	return NewSigner(func() []ed25519.PrivateKey { return keys })
}

func login() *Event {
	return &Event{
		ID: "6d1b1f6e-3f3c-4d7e-9a55-0c8b1d2f3a4b", Time: time.UnixMilli(1750688927556), Method: Basic, Outcome: Success,
		Source: netip.MustParseAddr("192.0.2.22"), Request: "/api/v2/developer/authenticate", UserAgent: "curl/8.5.0",
		Organization: "org", Portal: "portal", Principal: "developer", Trace: "3360194145499877252",
	}
}

// parse reads a line of the format.
func parse(t *testing.T, line string) audittest.CEF {
	t.Helper()
	c, err := audittest.ParseCEF(line)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// verified checks a signature with the published key.
func verified(t *testing.T, key Key, line, sig string) bool {
	t.Helper()
	x, err := base64.RawURLEncoding.DecodeString(key.X)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(sig)
	return err == nil && ed25519.Verify(x, []byte(line), raw)
}

// TestCEF: the line has the shape that receivers know, in their order.
func TestCEF(t *testing.T) {
	s := signer(t)
	line := string(origin.CEF(login(), s))
	unsigned, sig, _ := strings.Cut(line, " sig=")
	const want = "2025-06-23T14:28:47Z portal.example CEF:0|Meshgate|Dev-Portal|1.0|AUTHENTICATION_TYPE_BASIC|AUTHENTICATION_OUTCOME_SUCCESS|0|" +
		"rt=1750688927556 src=192.0.2.22 request=/api/v2/developer/authenticate success=true org_id=org portal_id=portal principal_id=developer " +
		"trace_id=3360194145499877252 event_id=6d1b1f6e-3f3c-4d7e-9a55-0c8b1d2f3a4b user_agent=curl/8.5.0"
	if unsigned != want {
		t.Errorf("the line is\n%s\nwant\n%s", unsigned, want)
	}
	if len(sig) != 86 || !verified(t, s.Keys().Keys[0], unsigned, sig) {
		t.Errorf("the signature %q is not of the line", sig)
	}
	if verified(t, s.Keys().Keys[0], unsigned+" ", sig) {
		t.Error("the signature is of another line, too")
	}
}

// TestJSON: the object has the members that receivers know, and a signature of the rest.
func TestJSON(t *testing.T) {
	s := signer(t)
	line := origin.JSON(login(), s)
	const want = `{"cef_version":0,"event_class_id":"AUTHENTICATION_TYPE_BASIC","event_id":"6d1b1f6e-3f3c-4d7e-9a55-0c8b1d2f3a4b",` +
		`"event_product":"Dev-Portal","event_ts":"2025-06-23T14:28:47Z","event_vendor":"Meshgate","event_version":"1.0",` +
		`"name":"AUTHENTICATION_OUTCOME_SUCCESS","org_id":"org","portal_id":"portal","principal_id":"developer",` +
		`"request":"/api/v2/developer/authenticate","rt":1750688927556,"severity":0,"sig":"SIG","src":"192.0.2.22","success":true,` +
		`"trace_id":"3360194145499877252","user_agent":"curl/8.5.0"}`
	var got map[string]any
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	sig, _ := got["sig"].(string)
	if text := strings.Replace(string(line), sig, "SIG", 1); text != want {
		t.Errorf("the object is\n%s\nwant\n%s", text, want)
	}
	if !verified(t, s.Keys().Keys[0], strings.Replace(string(line), `"sig":"`+sig+`",`, "", 1), sig) {
		t.Error("the signature is not of the rest of the object")
	}
}

// TestSeverities: what nobody has foreseen is not harmless.
func TestSeverities(t *testing.T) {
	for outcome, want := range map[Outcome]string{
		Success: "0 true", NotFound: "1 false", InvalidPassword: "1 false", TokenExpired: "1 false", Locked: "6 false", Disabled: "6 false", Invalid: "7 false", "OTHER": "7 false",
	} {
		e := login()
		e.Outcome = outcome
		p := parse(t, string(origin.CEF(e, signer(t))))
		if got := p.Header[6] + " " + p.Extension["success"]; got != want {
			t.Errorf("%s: %s, want %s", outcome, got, want)
		}
	}
}

// TestUnknownSources: members stay when there is nothing to say.
func TestUnknownSources(t *testing.T) {
	e := login()
	e.Source, e.UserAgent, e.Principal = netip.Addr{}, "", ""
	line := string(origin.CEF(e, signer(t)))
	for _, part := range []string{" src= request=", " principal_id= ", " user_agent= sig="} {
		if !strings.Contains(line, part) {
			t.Errorf("%q is not in %s", part, line)
		}
	}
	e.Source = netip.MustParseAddr("::ffff:192.0.2.1")
	if got := parse(t, string(origin.CEF(e, signer(t)))).Extension["src"]; got != "192.0.2.1" {
		t.Errorf("the source is %s", got)
	}
}

// FuzzCEF: whatever a client sends, an independent reader finds each member as it was, and no other.
func FuzzCEF(f *testing.F) {
	f.Add("curl/8", "/p", "Vendor|x", "a=b")
	f.Add(`\`, `\=`, `\|`, "\r\n sig=x CEF:0|")
	f.Add("a success=true", " src=10.0.0.1", "\n", "\xff")
	f.Fuzz(func(t *testing.T, agent, request, vendor, principal string) {
		s := signer(t)
		e := login()
		e.UserAgent, e.Request, e.Principal = agent, request, principal
		o := Origin{Vendor: vendor, Host: "host"}
		line := string(o.CEF(e, s))
		p := parse(t, line)
		valid := func(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
		for key, want := range map[string]string{"user_agent": valid(agent), "request": valid(request), "principal_id": valid(principal), "success": "true"} {
			if got := p.Extension[key]; got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
		if !slices.Equal(p.Keys, []string{"rt", "src", "request", "success", "org_id", "portal_id", "principal_id", "trace_id", "event_id", "user_agent", "sig"}) {
			t.Errorf("the keys are %q", p.Keys)
		}
		if got, want := p.Header[1], strings.NewReplacer("\n", " ", "\r", " ").Replace(valid(vendor)); got != want {
			t.Errorf("the vendor is %q, want %q", got, want)
		}
		if !utf8.ValidString(line) {
			t.Error("not UTF-8")
		}
		cut := strings.LastIndex(line, " sig=")
		if !verified(t, s.Keys().Keys[0], line[:cut], line[cut+len(" sig="):]) {
			t.Error("the signature is not of the line")
		}
	})
}

// FuzzJSON: whatever a client sends, the object is one line, and verifies.
func FuzzJSON(f *testing.F) {
	f.Add("curl/8", "/p", "v")
	f.Add("<a>&\u2028", "\xff\x00", "\n\"")
	f.Fuzz(func(t *testing.T, agent, request, vendor string) {
		s := signer(t)
		e := login()
		e.UserAgent, e.Request = agent, request
		line := Origin{Vendor: vendor}.JSON(e, s)
		if bytes.ContainsAny(line, "\n\r") {
			t.Fatalf("%q", line)
		}
		var got map[string]any
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToValidUTF8(agent, "\uFFFD"); len(agent) > 0 && utf8.ValidString(agent) && got["user_agent"] != want {
			t.Errorf("the user agent is %q, want %q", got["user_agent"], want)
		}
		sig, _ := got["sig"].(string)
		if !verified(t, s.Keys().Keys[0], strings.Replace(string(line), `"sig":"`+sig+`",`, "", 1), sig) {
			t.Error("the signature is not of the rest of the object")
		}
	})
}

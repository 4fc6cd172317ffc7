package audit

import (
	"bytes"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/e2e/golden"
)

// administered is an event about the control plane itself.
func administered(a Administration) *Event {
	return &Event{
		ID: "6d1b1f6e-3f3c-4d7e-9a55-0c8b1d2f3a4b", Time: time.UnixMilli(1750688927556), Source: netip.MustParseAddr("192.0.2.22"),
		Request: "PATCH /services/{service}", UserAgent: "curl/8.5.0", Organization: "org", Portal: "control-plane", Trace: "336", Administration: &a,
	}
}

// TestAdministrationFormats: the lines of each class, in both formats.
func TestAdministrationFormats(t *testing.T) {
	s := signer(t)
	var b bytes.Buffer
	for _, a := range []Administration{
		{Class: Change, Actor: "user:mesh-system:admin", API: "gateway", Action: "updated", Kind: "service", Scoping: "control-plane", Scope: "default", Name: "0b", Title: "s",
			Members: `["/host"]`, Before: `{"host":"a.example"}`, After: `{"host":"b=c|d.example"}`},
		{Class: Change, Actor: "user:ann", API: "mesh", Action: "created", Kind: "mesh_secret", Scoping: "mesh", Scope: "m", Name: "s", Members: `["/data"]`, After: `{"data":"CONCEALED+++"}`, Cut: true, More: 3},
		{Class: Change, Actor: "user:token:ci", API: "cloud", Action: "deleted", Kind: "oauth2_token", Scope: "default", Cause: "consumer 0c", Count: 17},
		{Class: Refusal, Actor: "user:vera", API: "gateway", Status: 403, Reason: "forbidden", Kind: "service"},
		{Class: Refusal, API: "cloud", Status: 401, Reason: "denied"},
		{Class: Refusal, Status: 401, Reason: "too_many", Count: 1234},
		{Class: Trial, Actor: "user:mesh-system:admin", API: "cloud"},
	} {
		e := administered(a)
		cef := origin.CEF(e, s)
		unsigned, sig, _ := strings.Cut(string(cef), " sig=")
		if !verified(t, s.Keys().Keys[0], unsigned, sig) {
			t.Errorf("the signature of %s is not of the line", cef)
		}
		b.Write(append(cef, '\n'))
		b.Write(append(origin.JSON(e, s), '\n'))
	}
	golden.Compare(t, filepath.Join("testdata", "administration.txt"), b.Bytes())
}

// FuzzAdministration: whatever callers name and write, an independent reader finds each member as it was,
// and no other.
func FuzzAdministration(f *testing.F) {
	f.Add("user:ann", "name", `{"a":"b=c|d\\n"}`, `{"a":"x sig=y"}`)
	f.Add(`\`, " success=true", "\n\r sig=", "\xff")
	f.Fuzz(func(t *testing.T, actor, name, before, after string) {
		s := signer(t)
		e := administered(Administration{Class: Change, Actor: actor, API: "mesh", Action: "updated", Kind: "mesh", Name: name, Before: before, After: after})
		line := string(origin.CEF(e, s))
		p := parse(t, line)
		for key, want := range map[string]string{"principal_id": actor, "resource_name": name, "before": before, "after": after, "success": "true", "resource_kind": "mesh"} {
			if got := p.Extension[key]; got != strings.ToValidUTF8(want, "\uFFFD") {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
		if !slices.Equal(p.Keys, []string{
			"rt", "src", "request", "success", "org_id", "principal_id", "api", "action", "resource_kind", "resource_scoping", "resource_scope", "resource_name", "resource_title",
			"cause", "count", "members", "more", "before", "after", "cut", "trace_id", "event_id", "user_agent", "sig",
		}) {
			t.Errorf("the keys are %q", p.Keys)
		}
		cut := strings.LastIndex(line, " sig=")
		if !verified(t, s.Keys().Keys[0], line[:cut], line[cut+len(" sig="):]) {
			t.Error("the signature is not of the line")
		}
		if object := origin.JSON(e, s); bytes.ContainsAny(object, "\n\r") {
			t.Fatalf("%q", object)
		}
	})
}

package accesslog

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// pieces are the expressions of a text and what each yields where its condition holds.
var pieces = regexp.MustCompile(`%CEL\((.*?) \? \((.*?)\) : ''\)%`)

// Every piece of the line is nothing but for its condition, else there would be a line for
// whoever leaves. What the pieces yield together is one object, whatever names a mesh has.
func TestAHandshakeIsALineOrNothing(t *testing.T) {
	text := Place{Mesh: `sh"op'%`, Service: "mail\\", Inbound: true, TCP: true}.unpermitted()
	var line strings.Builder
	rest := pieces.ReplaceAllStringFunc(text, func(piece string) string {
		m := pieces.FindStringSubmatch(piece)
		if m[1] != unnamed {
			t.Errorf("%s is not asked for", m[2])
		}
		if literal, is := strings.CutPrefix(m[2], "'"); is {
			line.WriteString(strings.TrimSuffix(literal, "'"))
		} else {
			line.WriteString("x")
		}
		return ""
	})
	if rest != "" {
		t.Errorf("always there: %s", rest)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(strings.TrimSuffix(line.String(), `\n`)), &got); err != nil {
		t.Fatalf("%v: %s", err, line.String())
	}
	if got["reason"] != "no_permission" || got["decision"] != "refused" || got["mesh"] != "sh_op__" || got["service"] != "mail_" {
		t.Errorf("%v", got)
	}
}

// Words that would end a text of JSON are not printed: they may be a stranger's.
func TestDetailsOfAHandshakeEndNoText(t *testing.T) {
	_, class, _ := strings.Cut(printable, "matches('")
	fits := regexp.MustCompile(strings.TrimSuffix(class, "')"))
	for text, want := range map[string]bool{
		"TLS_error:|268435581:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED:verify cert failed: SAN matcher, certificate SANs are [mesh://a.b/c_d, spiffe://shop/web-1]:TLS_error_end": true,
		`are [spiffe://shop/"]`: false, `are [spiffe://shop/\]`: false, "are [spiffe://shop/\n{}]": false, "are [spiffe://shop/\x00]": false,
	} {
		if fits.MatchString(text) != want {
			t.Errorf("%q fits: %v", text, !want)
		}
	}
}

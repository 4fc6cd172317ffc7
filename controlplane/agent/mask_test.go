package agent

import (
	"strings"
	"testing"
)

// TestMask uses lines as Envoy writes them at the levels debug and trace.
func TestMask(t *testing.T) {
	for in, want := range map[string]string{
		"starting main dispatch loop":                                            "starting main dispatch loop",
		"':method', 'GET'":                                                       "':method', 'GET'",
		"':path', '/a/b'":                                                        "':path', '/a/b'",
		"':path', '/a?access_token=xyz&b=c'":                                     "':path', '/a?[masked]'",
		"'authorization', 'Bearer xyz'":                                          "'authorization', '[masked]'",
		"'Authorization', 'xyz'":                                                 "'Authorization', '[masked]'",
		"'apikey', 'xyz'":                                                        "'apikey', '[masked]'",
		"'cookie', 'a=b; c=d'":                                                   "'cookie', '[masked]'",
		"'x-tenant', 'xyz'":                                                      "'x-tenant', '[masked]'",
		"'x-a', 'b', 'authorization', 'xyz'":                                     "'x-a', '[masked]'",
		"'user-agent', 'curl/8'":                                                 "'user-agent', 'curl/8'",
		"'user-agent', 'Bearer xyz'":                                             "'user-agent', 'Bearer [masked]'",
		"'x-request-id', '123'":                                                  "'x-request-id', '123'",
		"'location', 'https://a/cb?code=xyz'":                                    "'location', '[masked]'",
		"[C1] completed header: key=x-k value=xy":                                "[C1] completed header: key=x-k value=[masked]",
		"[C1] completed header: key=Host value=a":                                "[C1] completed header: key=Host value=a",
		"[C1] completed header: key=Authorization value=Bearer xyz abc":          "[C1] completed header: key=Authorization value=[masked]",
		"Http2Visitor::OnHeaderForStream(1, x-tenant, xyz)":                      "Http2Visitor::OnHeaderForStream([masked]",
		"cluster 'x' match for URL '/a?client_secret=xyz&b=c'":                   "cluster 'x' match for URL '/a?[masked]'",
		"cluster 'x' match for URL '/a'":                                         "cluster 'x' match for URL '/a'",
		"AUTHORIZATION: BEARER xyz":                                              "AUTHORIZATION: [masked]",
		"authorization: Basic abc=":                                              "authorization: [masked]",
		`{"access_token":"xyz","refresh_token": "uvw","expires_in":3}`:           `{"access_token":"[masked]","refresh_token": "[masked]","expires_in":3}`,
		"grant_type=client_credentials&client_secret=xyz&client_assertion=u&a=b": "grant_type=client_credentials&client_secret=[masked]&client_assertion=[masked]&a=b",
		"upstream reset: reset reason: connection failure, response code: 503":   "upstream reset: reset reason: connection failure, response code: 503",
		"add/update listener 'gateway:http:8000' hash=1":                         "add/update listener 'gateway:http:8000' hash=1",
	} {
		if got := mask(in); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

// FuzzMask: whatever surrounds it, a token after its scheme and a value after a name of
// credentials are masked. Lines do not grow without bound.
func FuzzMask(f *testing.F) {
	for _, s := range [][3]string{
		{"'authorization', '", "abcdefgh1234", "'"}, {"x", "abcdefgh1234", "\xff"}, {"?a=", "abcdefgh1234", "&b"}, {"[C1] completed header: key=a value=", "abcdefgh1234", ""},
		{"'user-agent', '", "abcdefgh1234", "'"}, {"token", "abcdefgh1234", " ] }"}, {"':path', '/", "abcdefgh1234", "?"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, before, token, after string) {
		for _, c := range token {
			if (c < 'a' || 'z' < c) && (c < '0' || '9' < c) {
				return
			}
		}
		if len(token) < 8 || strings.Contains(before, token) || strings.Contains(after, token) || strings.Contains(masked, token) {
			return
		}
		for _, form := range []string{"Bearer ", "bearer  ", "BASIC ", "access_token=", `"client_secret": "`, "apikey=", "Authorization: "} {
			line := before + form + token + " " + after
			got := mask(line)
			if strings.Contains(got, token) {
				t.Fatalf("%q became %q", line, got)
			}
			if len(got) > maxLogLine {
				t.Fatalf("a line of %d bytes became one of %d", len(line), len(got))
			}
		}
	})
}

func BenchmarkMask(b *testing.B) {
	for name, line := range map[string]string{
		"quiet":  "cds: add 1 cluster(s), remove 0 cluster(s), added/updated 1 of them and skipped 0 unmodified",
		"header": "'authorization', 'Bearer abcdefghijklmnopqrstuvwxyz012345'",
		"query":  "[Tags: \"ConnectionId\":\"4\",\"StreamId\":\"123\"] cluster 'service:a' match for URL '/api/x?access_token=abcdefghijklmnopqrstuvwxyz012345'",
		"long":   strings.Repeat("a line without anything to hide, ", maxLogLine/33),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mask(line)
			}
		})
	}
}

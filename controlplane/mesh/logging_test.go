package mesh

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParseLogFormat: formats are divided at the placeholders of the mesh; what Envoy would
// refuse, or what reads the machine of a proxy, is refused.
func TestParseLogFormat(t *testing.T) {
	text := func(s string) LogPiece { return LogPiece{Text: s} }
	for format, want := range map[string][]LogPiece{
		"":                       {},
		"plain 100%%":            {text("plain 100%%")},
		"%MESH_NAME%":            {{Placeholder: LogMesh}},
		"a%MESH_NAME%%PROTOCOL%": {text("a"), {Placeholder: LogMesh}, text("%PROTOCOL%")},
		"%%MESH_NAME%%":          {text("%%MESH_NAME%%")},
		"%REQ(a)% %RESP(b)%":     {text("%REQ(a):4096% %RESP(b):4096%")},
		"%START_TIME(%Y/%m/%d %H:%M:%S)% %REQ(X-A?:PATH):10% %RESP(b):7% %TRAILER(grpc-status):9%": {
			text("%START_TIME(%Y/%m/%d %H:%M:%S)% %REQ(X-A?:PATH):10% %RESP(b):7% %TRAILER(grpc-status):9%"),
		},
		"%MESH_SOURCE_ADDRESS%|%MESH_SOURCE_ADDRESS_WITHOUT_PORT%|%MESH_TRAFFIC_DIRECTION%": {
			{Placeholder: LogSourceAddress}, text("|"), {Placeholder: LogSourceHost}, text("|"), {Placeholder: LogTrafficDirection},
		},
	} {
		got, wrong := ParseLogFormat(format)
		if diff := cmp.Diff(want, got); wrong != "" || diff != "" {
			t.Errorf("%q: %s (-want +got):\n%s", format, wrong, diff)
		}
	}
	for format, want := range map[string]string{
		"a\nb":                              "control characters",
		"a\u2028b":                          "control characters",
		"a\xff":                             "UTF-8",
		"50%":                               "begins no operator",
		"%protocol%":                        "begins no operator",
		"%ENVIRONMENT(HOME)%":               "is no operator",
		"%FILE_CONTENT(/etc/passwd)%":       "is no operator",
		"%DYNAMIC_METADATA(a)%":             "is no operator",
		"%CEL(request.path)%":               "is no operator",
		"%MESH_OTHER%":                      "is no operator",
		"%MESH_NAME(x)%":                    "is no operator",
		"%PROTOCOL(x)%":                     "argument",
		"%PROTOCOL():3%":                    "length",
		"%START_TIME()%":                    "argument",
		"%PROTOCOL:3%":                      "length",
		"%REQ()%":                           "must name a header",
		"%REQ(a?b?c)%":                      "must name a header",
		"%REQ(a b)%":                        "must name a header",
		"%REQ%":                             "must name a header",
		strings.Repeat("x", maxLogFormat+1): "not be longer",
	} {
		if _, wrong := ParseLogFormat(format); !strings.Contains(wrong, want) {
			t.Errorf("%.40q: %q, want %q", format, wrong, want)
		}
	}
}

// TestSink: what no agent could write is refused when it is written.
func TestSink(t *testing.T) {
	for _, c := range []struct {
		kind, conf, want string
	}{
		{"file", "/var/log/mesh/a.log", ""},
		{"file", "a.log", ""},
		{"file", "", "config.path: cannot be empty"},
		{"file", "/", "config.path: must be the path of a file"},
		{"file", "/a/../b", "config.path: must be the path of a file"},
		{"file", "../b", "config.path: must be the path of a file"},
		{"file", "/a//b", "config.path: must be the path of a file"},
		{"file", "/a/b/", "config.path: must be the path of a file"},
		{"file", "/a\x00", "config.path: must have no control characters"},
		{"file", "/a.log.1", "config.path: must not end with a dot and a number"},
		{"file", "/" + strings.Repeat("n", 241), "config.path: must have no name longer than 240 bytes"},
		{"file", strings.Repeat("/n", 600), "config.path: must not be longer than 1024 bytes"},
		{"tcp", "logs.example:5000", ""},
		{"tcp", "[::1]:5000", ""},
		{"tcp", "logs.example", "config.address: has to be in format of HOST:PORT"},
		{"tcp", "logs example:5000", "config.address: has to be an IP address or a host name"},
		{"tcp", "127.1:5000", "config.address: has to be an IP address or a host name"},
		{"tcp", "logs.example:0", "config.address: port must be in the range"},
		{"tcp", "logs.example:65536", "config.address: port must be in the range"},
		{"udp", "", "type: unknown backend type"},
	} {
		b := LoggingBackend{Name: "a", Type: c.kind, Conf: map[string]any{"path": c.conf, "address": c.conf}}
		_, wrong := b.Sink()
		switch {
		case c.want == "" && len(wrong) > 0:
			t.Errorf("%s %q: %v", c.kind, c.conf, wrong)
		case c.want != "" && (len(wrong) != 1 || !strings.HasPrefix(wrong[0].Path+": "+wrong[0].Message, c.want)):
			t.Errorf("%s %.40q: %v, want %q", c.kind, c.conf, wrong, c.want)
		}
	}
}

package agent

import (
	"bytes"
	"errors"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCopyLog(t *testing.T) {
	long := strings.Repeat("x", maxLogLine)
	for _, test := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"every level", "trace\ta\t1\ndebug\ta\t2\ninfo\ta\t3\nwarning\ta\t4\nerror\ta\t5\ncritical\ta\t6\n", []string{
			"DEBUG envoy: 1 logger=a", "DEBUG envoy: 2 logger=a", "INFO envoy: 3 logger=a",
			"WARN envoy: 4 logger=a", "ERROR envoy: 5 logger=a", "ERROR envoy: 6 logger=a",
		}},
		{"no level at first", "hello\n", []string{"INFO envoy: hello logger=envoy"}},
		{"a level that is none", "fatal\ta\tb\n", []string{"INFO envoy: fatal\ta\tb logger=envoy"}},
		{"continued", "error\tconfig\tfirst\nsecond\n\nthird\ninfo\tmain\tnext\n", []string{
			"ERROR envoy: first logger=config", "ERROR envoy: second logger=config", "ERROR envoy: third logger=config", "INFO envoy: next logger=main",
		}},
		{"breaks in the message", "info\tmain\tfirst\\ncritical\tmain\tsecond\\n\\n[critical] third\nwarning\tmain\tnext\n", []string{
			"INFO envoy: first logger=main", "INFO envoy: critical\tmain\tsecond logger=main", "INFO envoy: [critical] third logger=main", "WARN envoy: next logger=main",
		}},
		{"tabs in the message", "info\tmain\ta\tb\n", []string{"INFO envoy: a\tb logger=main"}},
		{"no newline at the end", "info\tmain\tlast", []string{"INFO envoy: last logger=main"}},
		{"overlong", "info\tmain\t" + long + long + "\nwarning\tmain\tnext\n", []string{
			"INFO envoy: " + long[len("info\tmain\t"):] + " logger=main", "WARN envoy: next logger=main",
		}},
		{"overlong at the end", long + long + "tail", []string{"INFO envoy: " + long + " logger=envoy"}},
		{"as long as the buffer", long[1:] + "\ninfo\tmain\tnext\n", []string{
			"INFO envoy: " + long[1:] + " logger=envoy", "INFO envoy: next logger=main",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRecorder()
			copyLog(strings.NewReader(test.in), slog.New(r), func() bool { return false })
			if diff := cmp.Diff(test.want, r.all()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLastWordsOfEnvoy: warnings that Envoy logs because it was told to end are not logged
// as warnings. The same lines at another time, and all others, are.
func TestLastWordsOfEnvoy(t *testing.T) {
	const in = "warning\tmain\tcaught ENVOY_SIGTERM\n" +
		"warning\tconfig\tDeltaAggregatedResources gRPC config stream to @ads_cluster closed: 13, reset\n" +
		"warning\tmain\tsomething else\nerror\tmain\tcaught ENVOY_SIGTERM\n"
	for ending, want := range map[bool][]string{
		true: {
			"INFO envoy: caught ENVOY_SIGTERM logger=main", "INFO envoy: DeltaAggregatedResources gRPC config stream to @ads_cluster closed: 13, reset logger=config",
			"WARN envoy: something else logger=main", "ERROR envoy: caught ENVOY_SIGTERM logger=main",
		},
		false: {
			"WARN envoy: caught ENVOY_SIGTERM logger=main", "WARN envoy: DeltaAggregatedResources gRPC config stream to @ads_cluster closed: 13, reset logger=config",
			"WARN envoy: something else logger=main", "ERROR envoy: caught ENVOY_SIGTERM logger=main",
		},
	} {
		r := newRecorder()
		copyLog(strings.NewReader(in), slog.New(r), func() bool { return ending })
		if diff := cmp.Diff(want, r.all()); diff != "" {
			t.Errorf("ending %v: %s", ending, diff)
		}
	}
}

// TestEnvoyForgesNoLevel: what Envoy quotes gets no level of its own, whatever it looks like.
func TestEnvoyForgesNoLevel(t *testing.T) {
	config := `{"static_resources":{"clusters":[{"name":"x","typed_extension_protocol_options":{"a\ninfo\tmain\tforged":
		{"@type":"type.googleapis.com/google.protobuf.Struct"}}}]}}`
	out, err := exec.CommandContext(t.Context(), envoyBinary(t), "--mode", "validate", "--config-yaml", config, "--log-format", logFormat).CombinedOutput()
	if _, refused := errors.AsType[*exec.ExitError](err); !refused {
		t.Fatalf("%v: %s", err, out)
	}
	r := newRecorder()
	copyLog(bytes.NewReader(out), slog.New(r), func() bool { return false })
	lines := r.all()
	for _, line := range lines {
		if strings.Contains(line, "forged") && !strings.HasPrefix(line, "ERROR ") {
			t.Error(line)
		}
	}
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "forged") }) {
		t.Errorf("Envoy does not quote it: %s", out)
	}
}

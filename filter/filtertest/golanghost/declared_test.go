package golanghost

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// declared is what one version of Envoy declares of its interface for Go: the folder of its
// api.h, and the text of its enumerations. played says that the host plays this version.
type declared struct {
	folder, enums string
	played        bool
}

// stored are the versions of Envoy that are compared beside the one that the library is built
// from. testdata/envoy/copy fetches what one declares. What is the same before and behind 1.35
// and 1.36 is taken to be the same in them, because their sources were not at hand.
var stored = []string{"v1.33.0", "v1.34.1", "v1.37.0", "v1.38.1"}

// versions returns what the stored versions declare, and the one that the library is built
// from.
func versions(t *testing.T) map[string]declared {
	t.Helper()
	all := map[string]declared{}
	for _, version := range stored {
		folder := filepath.Join("testdata", "envoy", version)
		all[version] = declared{folder, read(t, filepath.Join(folder, "enums.h")), false}
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/envoyproxy/envoy").Output()
	if err != nil {
		t.Fatal(err)
	}
	sources := strings.TrimSpace(string(out))
	golang := filepath.Join(sources, "contrib", "golang")
	var enums strings.Builder
	for _, file := range []string{
		filepath.Join(golang, "filters", "http", "source", "processor_state.h"), filepath.Join(golang, "filters", "http", "source", "golang_filter.h"),
		filepath.Join(sources, "envoy", "http", "protocol.h"),
	} {
		enums.WriteString(read(t, file))
	}
	all["built from"] = declared{filepath.Join(golang, "common", "go", "api"), enums.String(), true}
	return all
}

// complaints are what a compiler says about the declarations of the front, and of a host that
// plays this version, beside those of Envoy, and which numbers differ.
func (d declared) complaints(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	layouts := []string{"layout.c"}
	if d.played {
		layouts = append(layouts, "hostlayout.c")
	}
	for _, file := range layouts {
		cmd := exec.CommandContext(t.Context(), "gcc", "-std=gnu11", "-Wall", "-Werror", "-fsyntax-only", "-I", d.folder, filepath.Join("testdata", file))
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(&all, "%v\n%s", err, out)
		}
	}
	theirs := map[string]int{}
	for _, class := range []string{"FilterState", "GolangStatus", "EnvoyValue", "Protocol"} {
		maps.Copy(theirs, enumerators(t, class, d.enums))
	}
	for file, names := range numbered {
		if file == played && !d.played {
			continue
		}
		ours := read(t, file)
		for our, their := range names {
			want, is := theirs[their]
			if !is || !regexp.MustCompile(fmt.Sprintf(`\b%s = %d\b`, our, want)).MatchString(ours) {
				fmt.Fprintf(&all, "%s: %s is %d in Envoy (%t)\n", file, our, want, is)
			}
		}
	}
	return all.String()
}

// played has the numbers of the host.
const played = "testdata/host.h"

// numbered are the numbers of the front and of the host, by what Envoy calls them.
var numbered = map[string]map[string]string{
	"../../golang/front/api.h": {
		"API_LOCAL_REPLY": "GolangStatus::LocalReply", "API_CONTINUE": "GolangStatus::Continue", "API_PROCESSING_HEADER": "FilterState::ProcessingHeader",
		"API_PROCESSING_TRAILER": "FilterState::ProcessingTrailer", "API_VALUE_PROTOCOL": "EnvoyValue::Protocol", "API_HTTP2": "Protocol::Http2",
	},
	played: {
		"WAITING_HEADER": "FilterState::WaitingHeader", "PROCESSING_HEADER": "FilterState::ProcessingHeader", "WAITING_DATA": "FilterState::WaitingData",
		"WAITING_ALL_DATA": "FilterState::WaitingAllData", "PROCESSING_DATA": "FilterState::ProcessingData", "WAITING_TRAILER": "FilterState::WaitingTrailer",
		"PROCESSING_TRAILER": "FilterState::ProcessingTrailer", "DONE": "FilterState::Done",
		"STATUS_RUNNING": "GolangStatus::Running", "STATUS_LOCAL_REPLY": "GolangStatus::LocalReply", "STATUS_CONTINUE": "GolangStatus::Continue",
		"STATUS_STOP_AND_BUFFER": "GolangStatus::StopAndBuffer", "STATUS_WATERMARK": "GolangStatus::StopAndBufferWatermark", "STATUS_NO_BUFFER": "GolangStatus::StopNoBuffer",
		"VALUE_PROTOCOL": "EnvoyValue::Protocol", "VALUE_REMOTE_ADDRESS": "EnvoyValue::DownstreamRemoteAddress", "VALUE_TLS": "EnvoyValue::SslConnectionExists",
		"HTTP10": "Protocol::Http10", "HTTP11": "Protocol::Http11", "HTTP2": "Protocol::Http2", "HTTP3": "Protocol::Http3",
	},
}

// enumerators returns the numbers of an enumeration in C++.
func enumerators(t *testing.T, class, text string) map[string]int {
	t.Helper()
	body := regexp.MustCompile(`(?s)enum class ` + class + `\b[^{;]*\{(.*?)\};`).FindStringSubmatch(text)
	if body == nil {
		t.Fatalf("there is no enumeration %s", class)
	}
	all, next := map[string]int{}, 0
	for item := range strings.SplitSeq(regexp.MustCompile(`//[^\n]*`).ReplaceAllString(body[1], ""), ",") {
		name, number, numbered := strings.Cut(strings.TrimSpace(item), "=")
		if name == "" {
			continue
		}
		if numbered {
			n, err := strconv.Atoi(strings.TrimSpace(number))
			if err != nil {
				t.Fatal(err)
			}
			next = n
		}
		all[class+"::"+strings.TrimSpace(name)] = next
		next++
	}
	return all
}

// What the front and the host declare of Envoy's interface is what Envoy declares, in every
// version that the front is for.
func TestDeclarationsAreEnvoys(t *testing.T) {
	for name, d := range versions(t) {
		t.Run(name, func(t *testing.T) {
			if said := d.complaints(t); said != "" {
				t.Error(said)
			}
		})
	}
}

// The comparison notices the changes that it is made for.
func TestDeclarationsNoticeChanges(t *testing.T) {
	now := versions(t)["built from"]
	header := read(t, filepath.Join(now.folder, "api.h"))
	for name, change := range map[string][2]string{
		"a text":          {"  const char* data;", "  int added;\n  const char* data;"},
		"a request":       {"  uint64_t configId;", "  uint64_t added;\n  uint64_t configId;"},
		"behind requests": {"is_golang_processing_log;", "is_golang_processing_log;\n  uint64_t added;"},
		"a state":         {"  int is_encoding;", "  uint64_t added;\n  int is_encoding;"},
		"a configuration": {"  int is_route_config;", "  int added;\n  int is_route_config;"},
		"a size":          {"  uint64_t config_len;", "  uint32_t config_len;"},
		"an action":       {"  HeaderSet,", "  HeaderOther,\n  HeaderSet,"},
		"a status":        {"  CAPIOK = 0,", "  CAPIOK = 1,"},
		"a wait":          {"  CAPIYield = -6,", "  CAPIYield = -16,"},
		"copying":         {"envoyGoFilterHttpCopyHeaders(void* s,", "envoyGoFilterHttpCopyHeaders(int added, void* s,"},
		"setting":         {"envoyGoFilterHttpSetHeaderHelper(void* s,", "envoyGoFilterHttpSetHeaderHelper(int added, void* s,"},
		"removing":        {"envoyGoFilterHttpRemoveHeader(void* s,", "envoyGoFilterHttpRemoveHeader(int added, void* s,"},
		"trailers":        {"envoyGoFilterHttpCopyTrailers(void* s,", "envoyGoFilterHttpCopyTrailers(int added, void* s,"},
		"their removal":   {"envoyGoFilterHttpRemoveTrailer(void* s,", "envoyGoFilterHttpRemoveTrailer(int added, void* s,"},
		"answering":       {"long long int grpc_status,", "int grpc_status,"},
		"values":          {"envoyGoFilterHttpGetIntegerValue(void* r, int id, uint64_t*", "envoyGoFilterHttpGetIntegerValue(void* r, int id, uint32_t*"},
		"the end":         {"void envoyGoFilterHttpFinalize(void* r, int reason)", "void envoyGoFilterHttpFinalize(void* r)"},
	} {
		t.Run(name, func(t *testing.T) {
			d := declared{t.TempDir(), now.enums, true}
			if err := os.WriteFile(filepath.Join(d.folder, "api.h"), []byte(replaced(t, header, change)), 0o600); err != nil {
				t.Fatal(err)
			}
			if d.complaints(t) == "" {
				t.Error("the change was not noticed")
			}
		})
	}
	for name, change := range map[string][2]string{
		"a phase":      {"  ProcessingHeader,", "  Added,\n  ProcessingHeader,"},
		"an answer":    {"  LocalReply,", "  Added,\n  LocalReply,"},
		"a value's id": {"  RouteName = 1,", "  RouteName = 2,"},
		"a protocol":   {"Http10, Http11,", "Http09, Http10, Http11,"},
	} {
		t.Run(name, func(t *testing.T) {
			if (declared{now.folder, replaced(t, now.enums, change), true}).complaints(t) == "" {
				t.Error("the change was not noticed")
			}
		})
	}
}

func replaced(t *testing.T, text string, change [2]string) string {
	t.Helper()
	changed := strings.Replace(text, change[0], change[1], 1)
	if changed == text {
		t.Fatalf("Envoy's sources have no %q", change[0])
	}
	return changed
}

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

const sdkModule = "github.com/envoyproxy/envoy/source/extensions/dynamic_modules"

// compile checks the declarations against a header and returns the compiler's complaints.
func compile(t *testing.T, header string) string {
	t.Helper()
	var complaints strings.Builder
	for _, file := range []string{"layout.c", "signatures.c"} {
		cmd := exec.Command("gcc", "-std=gnu11", "-Wall", "-Werror", "-fsyntax-only", "-I.",
			`-DSDK_HEADER="`+header+`"`, filepath.Join("testdata", file))
		if out, err := cmd.CombinedOutput(); err != nil {
			complaints.WriteString(err.Error() + "\n" + string(out))
		}
	}
	return complaints.String()
}

func sdkHeader(t *testing.T) string {
	t.Helper()
	// No package of the SDK is imported, so nothing else has downloaded it.
	out, err := exec.Command("go", "mod", "download", "-json", sdkModule).Output()
	if err != nil {
		t.Fatalf("download %s: %v: %s", sdkModule, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(module.Dir, "abi", "abi.h")
}

func TestDeclarationsAreEnvoys(t *testing.T) {
	if complaints := compile(t, sdkHeader(t)); complaints != "" {
		t.Error(complaints)
	}
}

// TestDeclarationsNoticeChanges: the comparison must notice the changes that it is made for.
func TestDeclarationsNoticeChanges(t *testing.T) {
	data, err := os.ReadFile(sdkHeader(t))
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "envoy_dynamic_module_"
	for name, change := range map[string]struct{ from, to string }{
		"version":           {`VERSION "v0.1.0"`, `VERSION "v0.2.0"`},
		"enum value":        {"  " + prefix + "type_attribute_id_SourceAddress,", "  added, " + prefix + "type_attribute_id_SourceAddress,"},
		"status value":      {"  " + prefix + "type_on_http_filter_request_headers_status_StopIteration,", "  added, " + prefix + "type_on_http_filter_request_headers_status_StopIteration,"},
		"field added":       {"typedef struct " + prefix + "type_module_http_header {", "typedef struct " + prefix + "type_module_http_header { int added;"},
		"callback argument": {prefix + "callback_http_clear_route_cache(", prefix + "callback_http_clear_route_cache(int added, "},
		"callback result":   {"bool " + prefix + "callback_http_set_header(", "int " + prefix + "callback_http_set_header("},
		"hook argument":     {prefix + "on_http_filter_scheduled(", prefix + "on_http_filter_scheduled(int added, "},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(string(data), change.from, change.to, 1)
			if changed == string(data) {
				t.Fatalf("the header has no %q", change.from)
			}
			file := filepath.Join(t.TempDir(), "abi.h")
			if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
			if compile(t, file) == "" {
				t.Error("the change was not noticed")
			}
		})
	}
}

// TestEveryHookIsDeclared: every hook of an HTTP filter in Envoy's header is declared here
// too.
func TestEveryHookIsDeclared(t *testing.T) {
	theirs, err := os.ReadFile(sdkHeader(t))
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile("abi.h")
	if err != nil {
		t.Fatal(err)
	}
	find := func(text []byte, pattern string) []string {
		var names []string
		for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	want := find(theirs, `(?m)^(?:[a-z_]+ )?envoy_dynamic_module_on_http_filter_([a-z_]+)\($`)
	want = slices.Compact(append(want, find(theirs, `(?m)^[a-z_]+ envoy_dynamic_module_on_http_filter_([a-z_]+)\([^)]`)...))
	slices.Sort(want)
	want = slices.Compact(want)
	got := find(ours, `DM_ON\(([a-z_]+)\)\(`)
	if !slices.Equal(want, got) || len(got) != 30 {
		t.Errorf("hooks beside program_init:\nEnvoy %q\nours  %q", want, got)
	}
}

func TestIdentityHeadersAreInOrder(t *testing.T) {
	source, err := os.ReadFile("apply.c")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range regexp.MustCompile(`LITERAL\("(x-[a-z-]+)"\)`).FindAllSubmatch(source, -1) {
		got = append(got, string(m[1]))
	}
	if !slices.Equal(got, contract.IdentityHeaders[:]) {
		t.Errorf("front has %q, contract %q", got, contract.IdentityHeaders)
	}
}

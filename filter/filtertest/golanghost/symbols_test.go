package golanghost

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What Envoy looks up when it loads a library for its HTTP filter is there, and what the
// library needs of Envoy is what Envoy of the same version has. Both lists are Envoy's own.
func TestSymbols(t *testing.T) { both(t, testSymbols) }

func testSymbols(t *testing.T, way way) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/envoyproxy/envoy").Output()
	if err != nil {
		t.Fatal(err)
	}
	common := filepath.Join(strings.TrimSpace(string(out)), "contrib", "golang", "common")
	dso, api := read(t, filepath.Join(common, "dso", "dso.cc")), read(t, filepath.Join(common, "go", "api", "api.h"))
	_, loader, _ := strings.Cut(dso, "HttpFilterDsoImpl::HttpFilterDsoImpl(")
	loader, _, _ = strings.Cut(loader, "\n}")
	wanted := names(`"(envoyGo\w+)"`, loader)
	offered := names(`\b(envoyGo\w+)\s*\(`, api)
	if len(wanted) != 10 || len(offered) < 40 {
		t.Fatalf("Envoy's sources are read wrongly: %v, %v", wanted, offered)
	}
	f, err := elf.Open(library(t, plugin, way))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var exported, imported []string
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF {
			imported = append(imported, s.Name)
		} else {
			exported = append(exported, s.Name)
		}
	}
	for _, name := range wanted {
		if !slices.Contains(exported, name) {
			t.Errorf("the library does not export %s", name)
		}
	}
	for _, name := range imported {
		if strings.HasPrefix(name, "envoyGo") && !slices.Contains(offered, name) {
			t.Errorf("the library needs %s, which Envoy does not have", name)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func names(pattern, text string) []string {
	var all []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

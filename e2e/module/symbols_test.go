package module

import (
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The linker is told to accept unresolved symbols; what may be unresolved are
// Envoy's callbacks and the C library. Envoy looks every hook up by name.
func TestLibraryImportsOnlyDeclaredCallbacks(t *testing.T) {
	header, err := os.ReadFile(filepath.Join(root, "filter", "dynamicmodule", "abi.h"))
	if err != nil {
		t.Fatal(err)
	}
	names := func(macro, prefix string) []string {
		var all []string
		for _, m := range regexp.MustCompile(macro+`\(([a-z_]+)\)\(`).FindAllSubmatch(header, -1) {
			all = append(all, prefix+string(m[1]))
		}
		return all
	}
	lib, err := elf.Open(filepath.Join(plainDir, "libmeshgate.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, lib)
	symbols, err := lib.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	callbacks, defined := names("DM_CALL", "envoy_dynamic_module_callback_"), map[string]bool{}
	for i := range symbols {
		s := &symbols[i]
		defined[s.Name] = s.Section != elf.SHN_UNDEF
		strange := s.Library == "" && elf.ST_BIND(s.Info) == elf.STB_GLOBAL && !slices.Contains(callbacks, s.Name)
		if s.Section == elf.SHN_UNDEF && strange && s.Name != "" {
			t.Errorf("nobody defines %s", s.Name)
		}
		if strings.HasPrefix(s.Name, "meshgateMallocs") {
			t.Errorf("the library that ships contains the test's %s", s.Name)
		}
	}
	for _, hook := range append(names("DM_ON", "envoy_dynamic_module_on_http_filter_"), "envoy_dynamic_module_on_program_init") {
		if !defined[hook] {
			t.Errorf("%s is missing", hook)
		}
	}
}

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// step matches a row of one of the walks in docs/architecture.md.
var step = regexp.MustCompile(`(?m)^\| \d+ \|.*$`)

// TestWalks compares the walks of docs/architecture.md with the code: each file must contain
// the functions that are listed after it.
func TestWalks(t *testing.T) {
	const root = "../../.."
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, walks, _ := strings.Cut(string(text), "\n## Three walks\n")
	walks, _, _ = strings.Cut(walks, "\n## ")
	for section := range strings.SplitSeq(walks, "\n**A ") {
		title, _, headed := strings.Cut(section, "**")
		if !headed {
			continue
		}
		rows := step.FindAllString(section, -1)
		if len(rows) < 5 {
			t.Errorf("the walk %q has %d steps", title, len(rows))
		}
		for _, row := range rows {
			followed(t, root, row)
		}
	}
}

// followed fails for a row that refers to something that does not exist.
func followed(t *testing.T, root, row string) {
	t.Helper()
	var file string
	var declares []string
	functions := 0
	for _, m := range quoted.FindAllStringSubmatch(row, -1) {
		name := m[1]
		switch {
		case strings.Contains(name, " "): // a request or a header
		case strings.Contains(name, "/"):
			file, declares = name, declared(t, filepath.Join(root, name))
		case file == "":
		case !slices.Contains(declares, name):
			t.Errorf("%s declares no function %s:\n%s", file, name, row)
		default:
			functions++
		}
	}
	if functions == 0 {
		t.Errorf("a step names no function:\n%s", row)
	}
}

// inC matches the definition of a function that is not indented.
var inC = regexp.MustCompile(`(?m)^[a-z][\w \*]*?\b(\w+)\([^;{}]*\)? *\{`)

// declared lists the functions and methods in a file of Go or C.
func declared(t *testing.T, path string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return nil
	}
	if filepath.Ext(path) == ".c" {
		for _, m := range inC.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
		return names
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

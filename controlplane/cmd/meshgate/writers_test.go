package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writers are the functions that call store.Store's Update: the gate, and what
// keeps rows of its own that no API, file or hook ever sees. Whoever adds one
// takes the gate instead, or says in docs/architecture.md what its transaction
// makes sure of.
var writers = map[string]string{
	"controlplane/admit":    "Gate.rehearse Gate.update",
	"controlplane/identity": "ensure",
	"controlplane/revoke":   "Revoker.forgetReaders Revoker.noteReader Revoker.noteTimes Revoker.writeKnown signer.renew writeEpoch",
}

// TestWriters finds every call of Update with the three arguments of a store in
// packages that import it, test files and the stores themselves excepted.
func TestWriters(t *testing.T) {
	const root = "../../.."
	found := map[string][]string{}
	err := filepath.WalkDir(filepath.Join(root, "controlplane"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		name, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil || strings.HasPrefix(name, "controlplane/store") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err == nil && slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"`+module+`controlplane/store"` }) {
			found[name] = append(found[name], updates(file)...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, list := range found {
		if slices.Sort(list); len(list) > 0 {
			got[name] = strings.Join(list, " ")
		}
	}
	if diff := cmp.Diff(writers, got); diff != "" {
		t.Errorf("who writes to the store (-listed +found):\n%s", diff)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(writers)) {
		for f := range strings.FieldsSeq(writers[name]) {
			if short := strings.TrimPrefix(name, "controlplane/") + "." + f; !strings.Contains(string(text), "`"+short+"`") {
				t.Errorf("docs/architecture.md does not say what %s makes sure of", short)
			}
		}
	}
}

// updates lists the functions of a file that call Update with three arguments.
func updates(file *ast.File) (out []string) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			of := f.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if id, ok := of.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 3 {
				if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Update" {
					out = append(out, name)
				}
			}
			return true
		})
	}
	return out
}

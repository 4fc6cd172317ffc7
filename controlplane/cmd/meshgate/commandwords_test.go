package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// quotedCommand matches a command of this program in a text for people.
var quotedCommand = regexp.MustCompile("['`\"(]meshgate ([a-z][a-z-]*(?: [a-z][a-z-]*)*)")

// TestQuotedCommandsExist: a text that tells its reader to run a command of this program, such as that of a
// refusal, names one that there is.
func TestQuotedCommandsExist(t *testing.T) {
	root, seen := rootCommand(), map[string]bool{}
	for _, dir := range []string{"controlplane", "xds", "inspect", "filter"} {
		err := filepath.WalkDir(filepath.Join("..", "..", "..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				e, ok := n.(ast.Expr)
				if !ok {
					return true
				}
				text, _ := literal(e)
				for _, m := range quotedCommand.FindAllStringSubmatch(text, -1) {
					seen[m[1]] = true
					if !exists(root, strings.Fields(m[1])) {
						t.Errorf("%s: there is no command meshgate %s:\n%s", path, m[1], text)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !seen["mesh sync"] || !seen["keys list"] || len(seen) < 6 {
		t.Errorf("the source was not understood: %v", seen)
	}
}

// exists reports whether words name a command, perhaps with arguments.
func exists(c *cobra.Command, words []string) bool {
	for ; len(words) > 0 && c.HasSubCommands(); words = words[1:] {
		at := slices.IndexFunc(c.Commands(), func(sub *cobra.Command) bool { return sub.Name() == words[0] || sub.HasAlias(words[0]) })
		if at < 0 {
			return false
		}
		c = c.Commands()[at]
	}
	return true
}

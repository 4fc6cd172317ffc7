package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logWords holds what the log can contain, according to the source.
type logWords struct {
	// messages are the messages of log/slog; true for those that are logged at the default
	// level.
	messages map[string]bool
	keys     map[string]bool
	// conditions are the names of conditions.
	conditions map[string]bool
}

// logMethods lists the methods of a logger, with the position of the message, and whether the
// default level, info, shows it.
var logMethods = map[string]struct {
	at    int
	shown bool
}{
	"Debug": {0, false}, "DebugContext": {1, false}, "Info": {0, true}, "InfoContext": {1, true}, "Warn": {0, true}, "WarnContext": {1, true},
	"Error": {0, true}, "ErrorContext": {1, true}, "LogAttrs": {2, true},
}

// readLogWords reads the source of the program, without its tests.
func readLogWords(t *testing.T) logWords {
	t.Helper()
	w := logWords{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, dir := range []string{"controlplane", "xds", "filter"} {
		err := filepath.WalkDir(filepath.Join("..", "..", "..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				ast.Inspect(file, w.visit)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(w.messages) < 50 || len(w.conditions) < 5 {
		t.Fatalf("the source was not understood: %d messages, %v", len(w.messages), w.conditions)
	}
	return w
}

func (w logWords) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		w.call(n)
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if strings.HasPrefix(name.Name, "condition") && i < len(n.Values) {
				if text, ok := literal(n.Values[i]); ok {
					w.conditions[text] = true
				}
			}
		}
	}
	return true
}

// call adds a log call, or an attribute that slog.String or a similar function makes.
func (w logWords) call(n *ast.CallExpr) {
	of, ok := n.Fun.(*ast.SelectorExpr)
	if !ok || len(n.Args) == 0 {
		return
	}
	if x, ok := of.X.(*ast.Ident); ok && x.Name == "slog" {
		if key, ok := literal(n.Args[0]); ok {
			w.keys[key] = true
		}
	}
	method, ok := logMethods[of.Sel.Name]
	if !ok || len(n.Args) <= method.at {
		return
	}
	message, ok := literal(n.Args[method.at])
	if !ok {
		return
	}
	w.messages[message] = w.messages[message] || method.shown
	for i := method.at + 1; method.shown && i < len(n.Args); i += 2 {
		if key, ok := literal(n.Args[i]); ok {
			w.keys[key] = true
		}
	}
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

var (
	quoted     = regexp.MustCompile("`([^`]+)`")
	snakeWords = regexp.MustCompile(`\b[a-z]+(?:_[a-z0-9]+)+\b`)
	whole      = regexp.MustCompile(`^([a-z_]+)=(.*)$`)
)

// knows reports whether a text can occur in the log at its default level. The text is a
// message or key=value, whose value may be a label of the alert or missing.
func (w logWords) knows(text string) bool {
	m := whole.FindStringSubmatch(text)
	switch {
	case m == nil:
		return w.messages[text]
	case m[1] == "msg":
		return w.messages[strings.Trim(m[2], `"`)]
	case m[1] == "condition" && !strings.HasPrefix(m[2], "{{"):
		return w.conditions[m[2]]
	}
	return w.keys[m[1]]
}

// TestAlertsNameWhatIsLogged: every line that an alert tells operators to look for must be
// logged, and not only at the level debug.
func TestAlertsNameWhatIsLogged(t *testing.T) {
	words := readLogWords(t)
	if words.messages["control_plane_disconnected"] || !words.messages["control_plane_connected"] || words.knows("condition=weather") || words.knows("nobody says this") {
		t.Fatal("a line of the level debug, or none, counts as one that is shown")
	}
	text, err := os.ReadFile(filepath.Join(operations, "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := snakeWords.FindAllString(string(text), -1)
	for _, r := range alertRules(t) {
		for _, text := range r.Annotations {
			for _, q := range quoted.FindAllStringSubmatch(text, -1) {
				if !words.knows(q[1]) {
					t.Errorf("%s sends people to look for %q, which the log does not say at its default level", r.Alert, q[1])
				}
			}
			for _, word := range snakeWords.FindAllString(quoted.ReplaceAllString(text, ""), -1) {
				if !strings.HasPrefix(word, "process_") && !slices.Contains(documented, word) {
					t.Errorf("%s says %s, which metrics.md does not explain; lines of the log stand in backquotes", r.Alert, word)
				}
			}
		}
	}
}

// TestOperatorsAreSentToLinesThatAreShown: no page for operators names a line that is logged
// only at the level debug.
func TestOperatorsAreSentToLinesThatAreShown(t *testing.T) {
	words := readLogWords(t)
	pages, err := filepath.Glob(filepath.Join(operations, "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range snakeWords.FindAllString(string(text), -1) {
			if shown, logged := words.messages[word]; logged && !shown {
				t.Errorf("%s names %s, which is logged at the level debug alone", filepath.Base(page), word)
			}
		}
	}
}

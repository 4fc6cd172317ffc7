// Package telemetrytest reads the expressions of the dashboards and alerts in
// docs/operations, so that tests can compare them with the existing metrics.
package telemetrytest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Expression is the expression of a panel or an alert.
type Expression struct {
	// Where names the file and the panel or alert.
	Where string
	Expr  string
}

// Expressions reads the expressions of all dashboards and alerts of a directory.
func Expressions(operations string) ([]Expression, error) {
	out, err := alerts(filepath.Join(operations, "alerts.yaml"))
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(operations, "dashboards", "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		panels, err := dashboard(file)
		if err != nil {
			return nil, err
		}
		out = append(out, panels...)
	}
	return out, nil
}

func alerts(file string) (out []Expression, err error) {
	var list struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := read(file, &list, func(text []byte, into any) error { return yaml.Unmarshal(text, into) }); err != nil {
		return nil, err
	}
	for _, g := range list.Groups {
		for _, r := range g.Rules {
			out = append(out, Expression{filepath.Base(file) + " " + r.Alert, r.Expr})
		}
	}
	return out, nil
}

func dashboard(file string) (out []Expression, err error) {
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := read(file, &d, json.Unmarshal); err != nil {
		return nil, err
	}
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			out = append(out, Expression{filepath.Base(file) + " " + p.Title, t.Expr})
		}
	}
	return out, nil
}

func read(file string, into any, unmarshal func([]byte, any) error) error {
	text, err := os.ReadFile(file) //nolint:gosec // a test names the file
	if err == nil {
		err = unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

var (
	// Label matchers, ranges, texts and lists of labels contain no names of families.
	noNames    = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(?:by|without|on|ignoring)\s*\([^)]*\)`)
	identifier = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\b\s*\(?`)
	operators  = []string{"and", "or", "unless", "bool"}
)

// Families lists the families that an expression reads. Series of a histogram keep their
// suffix. It understands only what the dashboards and alerts use: a family must be given by
// its name.
func Families(expr string) (out []string) {
	for _, word := range identifier.FindAllString(noNames.ReplaceAllString(expr, ""), -1) {
		if name := strings.TrimSpace(word); !strings.HasSuffix(name, "(") && !slices.Contains(operators, name) {
			out = append(out, name)
		}
	}
	return out
}

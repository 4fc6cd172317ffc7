package declarative

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake in a file.
type Problem struct {
	// Line counts from 1.
	Line int
	// Path is the place in the document, such as services[0].port; empty for the whole
	// document.
	Path    string
	Message string
	// Object names the entity that has the mistake, if it has a name.
	Object string
}

// Problems are all mistakes in a file.
type Problems struct {
	File string
	List []Problem
}

// Error implements error, with one line for each problem in the order of the file.
func (p *Problems) Error() string {
	sorted := slices.Clone(p.List)
	slices.SortStableFunc(sorted, func(a, b Problem) int { return a.Line - b.Line })
	lines := make([]string, len(sorted))
	for i, one := range sorted {
		path := one.Path
		if path != "" {
			path += ": "
		}
		lines[i] = fmt.Sprintf("%s:%d: %s%s", p.File, one.Line, path, one.Message)
	}
	return strings.Join(lines, "\n")
}

// add adds a problem.
func (p *Problems) add(line int, path, format string, args ...any) {
	p.List = append(p.List, Problem{Line: line, Path: path, Message: fmt.Sprintf(format, args...)})
}

// orNil returns the problems as an error; nil if there are none.
func (p *Problems) orNil() error {
	if len(p.List) == 0 {
		return nil
	}
	return p
}

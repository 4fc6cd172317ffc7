package mesh

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/meshgate/meshgate/controlplane/hostname"
)

// Bounds of templates and of what they make, in bytes.
const (
	maxTemplate = 1024
	maxMade     = 1024
)

// NameTemplate makes a host name or a port of the values of parameters. It is a template of Go's
// text/template of which only values, texts, conditions and the functions of templateFunctions
// may be used: what is left always ends soon and makes little, whoever wrote it.
type NameTemplate struct{ t *template.Template }

var errLong = errors.New("it is too long")

// templateFunctions take the text last, so that they can stand in a pipeline.
var templateFunctions = template.FuncMap{
	"lower":      strings.ToLower,
	"trimPrefix": func(prefix, text string) string { return strings.TrimPrefix(text, prefix) },
	"trimSuffix": func(suffix, text string) string { return strings.TrimSuffix(text, suffix) },
	"replace": func(old, by, text string) (string, error) {
		// What comes of it could be so much longer that each one of a pipeline multiplies it.
		if n := strings.Count(text, old); len(text)+n*(len(by)-len(old)) > maxMade {
			return "", errLong
		}
		return strings.ReplaceAll(text, old, by), nil
	},
}

// comparisons are the functions of text/template that may be used.
var comparisons = map[string]bool{"eq": true, "ne": true, "and": true, "or": true, "not": true}

// ParseNameTemplate parses a template. Its error is for the author of the template.
func ParseNameTemplate(text string) (*NameTemplate, error) {
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("a template has at most %d characters", maxTemplate)
	}
	t, err := template.New("template").Option("missingkey=error").Funcs(templateFunctions).Parse(text)
	if err != nil {
		return nil, err
	}
	if len(t.Templates()) > 1 {
		return nil, errors.New("a template cannot define others")
	}
	if t.Tree == nil || t.Root == nil {
		return &NameTemplate{t}, nil
	}
	if err := permitted(t.Root); err != nil {
		return nil, err
	}
	return &NameTemplate{t}, nil
}

// permitted returns an error for a node that templates may not contain. A loop could be endless,
// and a format could have any width.
func permitted(node parse.Node) error {
	switch n := node.(type) {
	case nil, *parse.TextNode, *parse.CommentNode, *parse.FieldNode, *parse.DotNode, *parse.StringNode, *parse.BoolNode, *parse.NumberNode:
		return nil
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, x := range n.Nodes {
			if err := permitted(x); err != nil {
				return err
			}
		}
		return nil
	case *parse.ActionNode:
		return permitted(n.Pipe)
	case *parse.IfNode:
		return errors.Join(permitted(n.Pipe), permitted(n.List), permitted(n.ElseList))
	case *parse.PipeNode:
		if len(n.Decl) > 0 {
			return errors.New("a template cannot have variables")
		}
		for _, c := range n.Cmds {
			for _, x := range c.Args {
				if err := permitted(x); err != nil {
					return err
				}
			}
		}
		return nil
	case *parse.IdentifierNode:
		if _, own := templateFunctions[n.Ident]; own || comparisons[n.Ident] {
			return nil
		}
		return fmt.Errorf("function %q is not available; these are: lower, replace, trimPrefix, trimSuffix, eq, ne, and, or, not", n.Ident)
	}
	return fmt.Errorf("%s is not available", node)
}

// Execute returns what the template makes of parameters. A parameter that is not there is an
// error.
func (t *NameTemplate) Execute(values map[string]string) (string, error) {
	var out bounded
	if err := t.t.Execute(&out, values); err != nil {
		return "", err
	}
	return out.String(), nil
}

// bounded keeps little of what is written.
type bounded struct{ strings.Builder }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxMade {
		return 0, errLong
	}
	return b.Builder.Write(p)
}

func foldHost(text string) string { return strings.ToLower(strings.TrimSuffix(text, ".")) }

func endsInNumber(text string) bool { return hostname.EndsInNumber(text) }

// Name is what transparent proxies of a mesh know something by: a host name, a port, and the
// tags of what it leads to.
type Name struct {
	Host string
	Port uint32
	Tags Tags
}

// Namer names inbounds as a [VirtualOutbound] says.
type Namer struct {
	selectors  []Selector
	host, port *NameTemplate
	parameters []NameParameter
}

// Namer returns what names inbounds; nil if the spec was stored without being validated and
// names nothing.
func (v *VirtualOutbound) Namer() *Namer {
	if v.Conf == nil {
		return nil
	}
	host, err := ParseNameTemplate(v.Conf.Host)
	if err != nil {
		return nil
	}
	port, err := ParseNameTemplate(v.Conf.Port)
	if err != nil {
		return nil
	}
	return &Namer{v.Selectors, host, port, v.Conf.Parameters}
}

// Name returns the name of an inbound by its tags. There is none if no selector matches, if the
// inbound lacks the tag of a parameter, or if the result is no host name or no port.
func (n *Namer) Name(tags Tags) (Name, bool) {
	if n == nil || !n.selects(tags) {
		return Name{}, false
	}
	values, own := make(map[string]string, len(n.parameters)), Tags{TagService: tags.Service()}
	for i := range n.parameters {
		p := &n.parameters[i]
		value, ok := tags[p.Key()]
		if !ok {
			return Name{}, false
		}
		values[p.Name], own[p.Key()] = value, value
	}
	host, err := n.host.Execute(values)
	if err != nil || !IsHost(foldHost(host)) {
		return Name{}, false
	}
	text, err := n.port.Execute(values)
	if err != nil {
		return Name{}, false
	}
	port, err := portOf(text)
	if err != nil {
		return Name{}, false
	}
	return Name{foldHost(host), port, own}, true
}

func (n *Namer) selects(tags Tags) bool {
	for _, s := range n.selectors {
		if Matches(s.Match, tags) {
			return true
		}
	}
	return false
}

package scrape

import (
	"slices"
	"strings"
)

// Family is a gauge about the page itself.
type Family struct {
	Name, Help string
	Series     []Series
}

// Series is one number of a family, with the values of its labels.
type Series struct {
	Labels map[string]string
	Value  float64
}

// escaped is how a label's value is written.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// appendTo appends a family.
func (f *Family) appendTo(out []byte) []byte {
	out = appendHead(out, f.Name, gauge, []byte(f.Help))
	for _, one := range f.Series {
		s := sample{name: []byte(f.Name), value: appendFloat(nil, one.Value)}
		for name, value := range one.Labels {
			value = strings.ReplaceAll(strings.ToValidUTF8(value, "\uFFFD"), "\x00", "\uFFFD")
			s.labels = append(s.labels, label{[]byte(name), []byte(escaped.Replace(value))})
		}
		out = s.appendTo(out)
	}
	return slices.Clip(out)
}

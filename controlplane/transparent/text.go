package transparent

import (
	"fmt"
	"strings"
)

// Text returns chains as "nft -f" reads them: it replaces the table.
func Text(chains []Chain) string {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %[1]s\ndelete table inet %[1]s\ntable inet %[1]s {\n", Table)
	for _, c := range chains {
		fmt.Fprintf(&b, "\tchain %s {\n\t\ttype nat hook %s priority -100; policy accept;\n", c.Name, c.Hook)
		for _, r := range c.Rules {
			b.WriteString("\t\t" + r.text() + "\n")
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func (r Rule) text() string {
	var words []string
	for _, c := range r.When {
		words = append(words, c.text())
	}
	if r.Refuse {
		return strings.Join(append(words, "drop"), " ")
	}
	if r.To == 0 {
		return strings.Join(append(words, "return"), " ")
	}
	return strings.Join(append(words, fmt.Sprintf("redirect to :%d", r.To)), " ")
}

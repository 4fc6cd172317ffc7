package framework

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/onsi/gomega"
)

// Guide is the shell blocks of a page of the documentation, in their order, as
// one script. The path is below the top of the checkout. At each heading the
// script prints the heading, so that [Chapters] can tell the answers apart.
func Guide(path ...string) string {
	data, err := os.ReadFile(filepath.Join(append([]string{Root()}, path...)...))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	var out strings.Builder
	inside := false
	for line := range strings.Lines(string(data)) {
		switch {
		case line == "```sh\n":
			inside = true
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside:
			out.WriteString(line)
		case strings.HasPrefix(line, "## "):
			fmt.Fprintf(&out, "echo %q\n", strings.TrimSpace(line))
		}
	}
	gomega.Expect(out.Len()).NotTo(gomega.BeZero(), "the page has no commands")
	return out.String()
}

// Chapters splits what a script of [Guide] printed by the headings of its page.
func Chapters(output string) map[string]string {
	chapters := map[string]string{}
	for part := range strings.SplitSeq("\n"+output, "\n## ") {
		title, text, _ := strings.Cut(part, "\n")
		chapters[title] = text
	}
	return chapters
}

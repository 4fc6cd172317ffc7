package framework

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/onsi/gomega"
)

// Guide is the shell blocks of a page of the documentation, in their order, as
// one script. The path is below the top of the checkout. At each heading the
// script prints the heading, so that [Chapters] can tell the answers apart.
func Guide(path ...string) string { return blocks("sh", path) }

// Installed is the blocks of a page that are for an installed service, which [Guide]
// leaves out. They name its user, its directories and its unit.
func Installed(path ...string) string { return blocks("sh installed", path) }

// blocks is the blocks of a page that are of one kind, as a script.
func blocks(kind string, path []string) string {
	data, err := os.ReadFile(filepath.Join(append([]string{Root()}, path...)...))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	var out strings.Builder
	inside, wanted, lines := false, false, 0
	for line := range strings.Lines(string(data)) {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside
			wanted = inside && line == "```"+kind+"\n"
		case wanted:
			out.WriteString(line)
			lines++
		case !inside && strings.HasPrefix(line, "## "):
			fmt.Fprintf(&out, "echo %q\n", strings.TrimSpace(line))
		}
	}
	gomega.Expect(lines).NotTo(gomega.BeZero(), "the page has no blocks of the kind "+kind)
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

// Transcript is the blocks of a page that are of no kind, by their headings: what it shows
// of the answers to its commands.
func Transcript(path ...string) map[string]string {
	script := blocks("", path)
	return Chapters(heading.ReplaceAllString(script, "$1"))
}

// heading is a line of a script that prints a heading.
var heading = regexp.MustCompile(`(?m)^echo "(## .*)"$`)

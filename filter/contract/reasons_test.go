package contract

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestReasonsAreDocumented: every reason is one word, occurs once in the list, and has a row
// in the document for operators.
func TestReasonsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "access-log.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[Reason]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (?:[0-9, ]+|any) \\|").FindAllSubmatch(text, -1) {
		documented[Reason(m[1])] = true
	}
	seen := map[Reason]bool{}
	for _, r := range Reasons {
		if !documented[r] {
			t.Errorf("%s has no row", r)
		}
		if seen[r] || !regexp.MustCompile(`^[a-z_]+$`).MatchString(string(r)) {
			t.Errorf("%q is no word, or stands twice", r)
		}
		seen[r] = true
	}
	if len(documented) != len(Reasons) {
		t.Errorf("%d reasons are documented, %d exist", len(documented), len(Reasons))
	}
	source, err := os.ReadFile("reasons.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile(`(?m)^\tReason\w+ +Reason = "`).FindAll(source, -1)); n != len(Reasons) {
		t.Errorf("%d reasons are defined, %d listed", n, len(Reasons))
	}
}

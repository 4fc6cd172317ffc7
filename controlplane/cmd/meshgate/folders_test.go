package main

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFolders compares the tables of folders in docs/architecture.md with the tree: each folder
// with Go files has a row of its own, and each row is of such folders. A row that covers a whole
// tree would not tell a reader which of its folders to open.
func TestFolders(t *testing.T) {
	const root = "../../.."
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := folderRows(string(text))
	if len(rows) < 20 {
		t.Fatalf("%d folders have a row", len(rows))
	}
	used := map[string]bool{}
	for _, folder := range goFolders(t, root) {
		row := folder
		if !rows[row] {
			row = path.Dir(folder) + "/<>"
		}
		if used[row] = true; !rows[row] {
			t.Errorf("%s has no row in docs/architecture.md", folder)
		}
	}
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		if !used[row] {
			t.Errorf("docs/architecture.md has a row of %s, in which there is no Go", row)
		}
	}
}

// anyFolder matches the end of a row for each folder of a kind, such as policy/<kind>.
var anyFolder = regexp.MustCompile(`/<[a-z]+>$`)

// folderRows returns the folders that the tables name. A row for each folder of a kind ends
// with "/<>".
func folderRows(text string) map[string]bool {
	_, tables, _ := strings.Cut(text, "\n## Folders\n")
	tables, _, _ = strings.Cut(tables, "\n## ")
	rows := map[string]bool{}
	for line := range strings.Lines(tables) {
		row, found := strings.CutPrefix(line, "| `")
		if name, _, _ := strings.Cut(row, "`"); found {
			rows[anyFolder.ReplaceAllString(name, "/<>")] = true
		}
	}
	return rows
}

// goFolders returns the folders with Go files, except data of tests and what is not part of
// the module.
func goFolders(t *testing.T, root string) (folders []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && file != root && (name == "testdata" || strings.HasPrefix(name, ".")) {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err == nil && !slices.Contains(folders, filepath.ToSlash(folder)) {
			folders = append(folders, filepath.ToSlash(folder))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

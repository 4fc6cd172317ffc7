package main

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFolders holds the table of folders in docs/architecture.md against the tree: each folder
// with Go files, or one above it, has a row, and each row is of such folders.
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
		covered := false
		for above := folder; above != "."; above = path.Dir(above) {
			covered = covered || rows[above]
			used[above] = true
		}
		if !covered {
			t.Errorf("%s has no row in docs/architecture.md", folder)
		}
	}
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		if !used[row] {
			t.Errorf("docs/architecture.md has a row of %s, in which there is no Go", row)
		}
	}
}

// folderRows returns the folders that the table names. After the first name of a row, the
// others leave out the first folder of its path.
func folderRows(text string) map[string]bool {
	_, table, _ := strings.Cut(text, "\n## Folders\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := map[string]bool{}
	for line := range strings.Lines(table) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		top := ""
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			// A name in angle brackets stands for each folder there.
			name, _, _ := strings.Cut(m[1], "/<")
			if name = path.Join(top, name); top == "" {
				top, _, _ = strings.Cut(name, "/")
			}
			rows[name] = true
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

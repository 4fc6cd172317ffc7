package extauthz

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// other is the user id of somebody else.
const other = 12345

// TestFoldersOfOthers: where others may write, they could put a socket of their own in the place
// of one that is away, whatever the mode of the folder's own files is.
func TestFoldersOfOthers(t *testing.T) {
	for mode, refused := range map[os.FileMode]string{0o700: "", 0o755: "", 0o775: "chmod go-w", 0o777: "chmod go-w", 0o777 | os.ModeSticky: "chmod go-w"} {
		dir := folder(t)
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		lis, err := Listen(t.Context(), contract.UnixPrefix+filepath.Join(dir, "s"))
		if err == nil {
			_ = lis.Close()
		}
		if (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused) {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

// folders are what is at the paths of a test, below a folder of its own.
type folders struct {
	t   *testing.T
	dir string
}

func (f folders) at(path string) string { return filepath.Join(f.dir, path) }

func (f folders) folder(path string, mode os.FileMode) {
	f.t.Helper()
	if err := errors.Join(os.MkdirAll(f.at(path), 0o700), os.Chmod(f.at(path), mode)); err != nil {
		f.t.Fatal(err)
	}
}

func (f folders) link(path, target string) {
	f.t.Helper()
	if err := os.Symlink(target, f.at(path)); err != nil {
		f.t.Fatal(err)
	}
}

// give makes a folder or a link that of somebody else, which only root can.
func (f folders) give(path string) {
	f.t.Helper()
	if err := os.Lchown(f.at(path), other, other); err != nil {
		f.t.Fatal(err)
	}
}

// TestFoldersOnTheWay: whoever may write to a folder may rename what is in it, so all of the way
// counts, that of symbolic links, too.
func TestFoldersOnTheWay(t *testing.T) {
	const missing, open, foreign = "mkdir -p -m 700", "others may write to folder", "belongs to another user"
	for name, c := range map[string]struct {
		root bool // only root can make it
		make func(f folders)
		want string // of the error for the folder a/b/c; empty if it is good
	}{
		"own":               {make: func(f folders) { f.folder("a/b/c", 0o700) }},
		"missing":           {make: func(f folders) { f.folder("a/b", 0o700) }, want: missing},
		"missing above":     {make: func(folders) {}, want: missing},
		"a file":            {make: func(f folders) { f.folder("a/b", 0o700); _ = os.WriteFile(f.at("a/b/c"), nil, 0o600) }, want: "is no folder"},
		"open above":        {make: func(f folders) { f.folder("a/b/c", 0o700); f.folder("a/b", 0o777) }, want: open},
		"group above":       {make: func(f folders) { f.folder("a/b/c", 0o700); f.folder("a", 0o770) }, want: open},
		"sticky above":      {make: func(f folders) { f.folder("a/b/c", 0o700); f.folder("a/b", 0o777|os.ModeSticky) }},
		"missing in sticky": {make: func(f folders) { f.folder("a/b", 0o777|os.ModeSticky) }, want: missing},
		"link":              {make: func(f folders) { f.folder("x/c", 0o700); f.folder("a", 0o700); f.link("a/b", f.at("x")) }},
		"link upwards":      {make: func(f folders) { f.folder("x/c", 0o700); f.folder("a", 0o700); f.link("a/b", "../x/./c/..") }},
		"link to nothing":   {make: func(f folders) { f.folder("a/b", 0o700); f.link("a/b/c", f.at("x")) }, want: missing},
		"link to open":      {make: func(f folders) { f.folder("x/c", 0o777); f.folder("a/b", 0o700); f.link("a/b/c", f.at("x/c")) }, want: open},
		"link through open": {make: func(f folders) {
			f.folder("x/c", 0o700)
			f.folder("x", 0o777)
			f.folder("a/b", 0o700)
			f.link("a/b/c", f.at("x/c"))
		}, want: open},
		"link in open": {make: func(f folders) { f.folder("x", 0o700); f.folder("a/b", 0o777); f.link("a/b/c", f.at("x")) }, want: open},
		"link to link": {make: func(f folders) {
			f.folder("x", 0o700)
			f.folder("y", 0o777)
			f.link("y/l", f.at("x"))
			f.folder("a/b", 0o700)
			f.link("a/b/c", f.at("y/l"))
		}, want: open},
		"link to itself":    {make: func(f folders) { f.folder("a/b", 0o700); f.link("a/b/c", "c") }, want: "more than 40 symbolic links"},
		"foreign":           {root: true, make: func(f folders) { f.folder("a/b/c", 0o700); f.give("a/b/c") }, want: foreign},
		"foreign above":     {root: true, make: func(f folders) { f.folder("a/b/c", 0o700); f.give("a") }, want: foreign},
		"foreign in sticky": {root: true, make: func(f folders) { f.folder("a/b/c", 0o700); f.folder("a/b", 0o777|os.ModeSticky); f.give("a/b/c") }, want: foreign},
		"foreign sticky":    {root: true, make: func(f folders) { f.folder("a/b/c", 0o700); f.folder("a/b", 0o777|os.ModeSticky); f.give("a/b") }, want: foreign},
		"foreign link": {root: true, make: func(f folders) {
			f.folder("x", 0o700)
			f.folder("a/b", 0o777|os.ModeSticky)
			f.link("a/b/c", f.at("x"))
			f.give("a/b/c")
		}, want: foreign},
		"link into foreign": {root: true, make: func(f folders) {
			f.folder("x/y", 0o700)
			f.give("x")
			f.folder("a/b", 0o700)
			f.link("a/b/c", f.at("x/y"))
		}, want: foreign},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("only root can make folders of others")
			}
			f := folders{t: t, dir: folder(t)}
			c.make(f)
			err := CheckFolder(f.at("a/b/c"))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if c.want == missing && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%v is not that it is missing", err)
			}
		})
	}
}

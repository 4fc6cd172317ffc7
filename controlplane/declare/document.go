package declare

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/declarative"
	"github.com/meshgate/meshgate/controlplane/model"
)

// maxFile bounds one file in bytes, maxFiles their number.
const (
	maxFile  = 64 << 20
	maxFiles = 1000
)

// stdin is the name of standard input among files.
const stdin = "-"

// Problems are the mistakes in files, each a line.
type Problems []string

// Error implements error.
func (p Problems) Error() string { return strings.Join(p, "\n") }

// Document is what all files of a run say together.
type Document struct {
	Header   declarative.Header
	Entities []*declarative.Entity
	// Masked are values from the environment, which are not shown.
	Masked []string
	// dumped are the times since which the lifetimes in a file have been running, by its name.
	dumped map[string]time.Time
}

// source is one file with its content.
type source struct {
	name string
	data []byte
}

// readSources reads files, and the YAML and JSON files below directories. No name, or -, is
// standard input.
func readSources(names []string, in io.Reader) (list []source, err error) {
	if len(names) == 0 {
		names = []string{stdin}
	}
	for _, name := range names {
		if name == stdin {
			data, err := bounded(in, "standard input")
			if err != nil {
				return nil, err
			}
			list = append(list, source{"stdin", data})
			continue
		}
		files, err := filesIn(name)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			s, err := readFile(file)
			if err != nil {
				return nil, err
			}
			if list = append(list, s); len(list) > maxFiles {
				return nil, fmt.Errorf("more than %d files are given", maxFiles)
			}
		}
	}
	return list, nil
}

func readFile(name string) (source, error) {
	f, err := os.Open(name) //nolint:gosec // the user names the file
	if err != nil {
		return source{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := bounded(f, name)
	return source{name, data}, err
}

func bounded(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxFile)
	}
	return data, err
}

// filesIn returns a file itself, or the files below a directory in the order of their names.
func filesIn(name string) (list []string, err error) {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return []string{name}, err
	}
	err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			list = append(list, path)
		}
		return err
	})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s holds no .yaml, .yml or .json file", name)
	}
	return list, err
}

// Parse reads the files of a run. The error is [Problems].
func Parse(sources []source, kinds []*model.Kind) (*Document, error) {
	d, reader := &Document{dumped: map[string]time.Time{}}, &declarative.Client{Lookup: os.LookupEnv}
	var problems Problems
	for _, s := range sources {
		f, err := reader.Parse(s.name, s.data, kinds)
		if err != nil {
			problems = append(problems, declarative.Texts(err)...)
			continue
		}
		d.Masked = append(d.Masked, f.Masked()...)
		d.Entities = append(d.Entities, f.Entities()...)
		if f.Header.Dumped != "" {
			at, err := time.Parse(time.RFC3339, f.Header.Dumped)
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s: _info.dumped_at: %v", s.name, err))
			}
			d.dumped[s.name] = at
		}
		if err := d.merge(f.Header); err != nil {
			problems = append(problems, s.name+": "+err.Error())
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return d, nil
}

// merge adds what another file says about itself. Files may repeat it, not contradict it.
func (d *Document) merge(h declarative.Header) error {
	have := &d.Header
	clash := func(key, a, b string) error {
		if a != "" && b != "" && a != b {
			return fmt.Errorf("%s: %q here, and %q in another file", key, b, a)
		}
		return nil
	}
	err := errors.Join(clash("_workspace", have.Workspace, h.Workspace), clash("_cloud.control_plane_name", have.ControlPlane, h.ControlPlane))
	if len(have.SelectTags) > 0 && len(h.SelectTags) > 0 && !sameTags(words(have.SelectTags), words(h.SelectTags)) {
		err = errors.Join(err, errors.New("_info.select_tags: they differ from those of another file"))
	}
	if len(have.SelectTags) == 0 {
		have.SelectTags = h.SelectTags
	}
	have.Workspace, have.ControlPlane = cmp.Or(have.Workspace, h.Workspace), cmp.Or(have.ControlPlane, h.ControlPlane)
	have.Cloud = have.Cloud || h.Cloud
	for kind, paths := range h.Replaced {
		if have.Replaced == nil {
			have.Replaced = map[string][]string{}
		}
		have.Replaced[kind] = append(have.Replaced[kind], paths...)
	}
	for kind, values := range h.Defaults {
		if have.Defaults == nil {
			have.Defaults = map[string]map[string]any{}
		}
		if have.Defaults[kind] == nil {
			have.Defaults[kind] = map[string]any{}
		}
		for name, v := range values {
			if other, is := have.Defaults[kind][name]; is && !reflect.DeepEqual(v, other) {
				err = errors.Join(err, fmt.Errorf("_info.defaults.%s.%s: it differs from that of another file", kind, name))
			}
			have.Defaults[kind][name] = v
		}
	}
	return err
}

func words(list []any) []string {
	out := make([]string, len(list))
	for i, item := range list {
		out[i] = fmt.Sprint(item)
	}
	return out
}

func sameTags(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

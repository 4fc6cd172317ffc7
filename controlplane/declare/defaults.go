package declare

import (
	"maps"
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
)

// completed adds the defaults of a file to what an entity says, member by member in records: whoever
// states one member of a configuration does not do without the defaults of the others. Everything else is
// one value, lists and references too, and so is a null.
func completed(s *model.Schema, given, defaults map[string]any) {
	for name, v := range defaults {
		said, is := given[name]
		if !is {
			given[name] = v
			continue
		}
		values, ok := said.(map[string]any)
		more, also := v.(map[string]any)
		f := s.Field(name)
		if !ok || !also || f == nil || f.Type != model.Record || f.Schema == nil {
			continue
		}
		values = maps.Clone(values)
		completed(f.Schema, values, more)
		given[name] = values
	}
}

// gives reports whether values say something at a path such as /config/realm, or above it.
func gives(values map[string]any, path string) bool {
	for name := range strings.SplitSeq(path[1:], "/") {
		v, is := values[name]
		if !is {
			return false
		}
		record, ok := v.(map[string]any)
		if !ok {
			return true
		}
		values = record
	}
	return true
}

package engine

import (
	"errors"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
)

// either tells who has read it.
type either struct{ by string }

func (e *either) ReadPlain(spec []byte) bool {
	if string(spec) != `"plain"` {
		return false
	}
	e.by = "itself"
	return true
}

func (e *either) UnmarshalJSON(spec []byte) error {
	if string(spec) == `"bad"` {
		return errors.New("it is bad")
	}
	e.by = "encoding/json"
	return nil
}

// TestDecodePlain: a spec that can read the usual form of its JSON does, and everything else is left to
// encoding/json.
func TestDecodePlain(t *testing.T) {
	k := &model.Kind{Name: "either", New: func() any { return new(either) }}
	for spec, by := range map[string]string{`"plain"`: "itself", `"other"`: "encoding/json", `"bad"`: "", `"plain`: ""} {
		switch got, err := Decode(k, []byte(spec)); {
		case by == "" && err == nil:
			t.Errorf("%s is read: %+v", spec, got)
		case by != "" && (err != nil || got.(*either).by != by):
			t.Errorf("%s is read as %+v, %v; want by %s", spec, got, err, by)
		}
	}
}

package gatewayapi_test

import (
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// parcel is an entity that the gateway does not have. A new kind needs only such a file, and
// a line in the list of kinds.
type parcel struct {
	Label   string   `json:"label" jsonschema:"maxLength=32" jsonschema_extras:"x-unique=true,x-check=lower"`
	Service string   `json:"service" jsonschema_extras:"x-on-delete=cascade,x-refers-to=service"`
	Size    string   `json:"size" jsonschema:"default=small,enum=small,enum=large"`
	Weight  int      `json:"weight" jsonschema:"default=1,minimum=1,maximum=100"`
	Tags    []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true"`
}

var parcels = (&model.Rules{
	Checks: map[string]func(any) string{"lower": func(v any) string {
		if v != strings.ToLower(v.(string)) {
			return "must be in lower case"
		}
		return ""
	}},
}).Describe(parcel{}, model.Kind{
	Name: "parcel", Path: "parcels", Scoping: model.ControlPlane, Class: model.Config,
	Schema: &model.Schema{
		Key: "label", CreatedUnit: time.Second, Updated: true,
		Checks: []model.Check{{Fields: []string{"size", "weight"}, Run: func(w *model.Write) []fault.Violation {
			if w.New["size"] == "small" && w.New["weight"].(int64) > 10 {
				return []fault.Violation{{Path: "weight", Message: "is too much for a small one"}}
			}
			return nil
		}}},
	},
})

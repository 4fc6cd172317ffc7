package gateway

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// consumerSchema describes consumers. Times are in milliseconds.
// Source: requirement "Consumer".
var consumerSchema = &model.Schema{
	Key: "username", CreatedUnit: time.Millisecond, Updated: true,
	Checks: []model.Check{{Fields: []string{"username", "custom_id"}, Run: consumerNamed}},
}

func consumerNamed(w *model.Write) []fault.Violation {
	if w.New["username"] != nil || w.New["custom_id"] != nil {
		return nil
	}
	text := "at least one of these fields must be non-empty: 'custom_id', 'username'"
	if w.Op == model.OpPatch {
		text = "when updating, " + text
	}
	return entityViolation(text)
}

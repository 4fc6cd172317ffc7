package gateway

import (
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// maxAnswer bounds the text of an answer in bytes: every route that the plugin
// is effective on carries it.
const maxAnswer = 4 << 10

// terminationSchema describes the configuration of a request-termination plugin.
var terminationSchema = &model.Schema{
	Fields: []model.Field{
		{Name: "status_code", Type: model.Integer, Required: true, Default: int64(503), Between: &[2]int64{200, 599}},
		{Name: "message", Type: model.String, MaxLen: maxAnswer},
		{Name: "body", Type: model.String, MaxLen: maxAnswer},
		{Name: "content_type", Type: model.String, MaxLen: 256, Check: headerText},
		{Name: "trigger", Type: model.String, MaxLen: 128, Check: headerNameText},
		{Name: "echo", Type: model.Boolean, Required: true, Default: false, Check: func(v any) string {
			if v == true {
				return "not supported: answers are prepared ahead and cannot repeat the request"
			}
			return ""
		}},
	},
	Checks: []model.Check{{Fields: []string{"message", "body", "content_type"}, Run: oneText}},
}

func oneText(w *model.Write) []fault.Violation {
	switch {
	case w.New["message"] != nil && (w.New["body"] != nil || w.New["content_type"] != nil):
		return entityViolation("message cannot be used with content_type or body")
	case w.New["content_type"] != nil && w.New["body"] == nil:
		return entityViolation("content_type requires a body")
	}
	return nil
}

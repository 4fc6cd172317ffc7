package gateway

import (
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// terminationSchema describes the configuration of a request-termination plugin.
var terminationSchema = &model.Schema{
	Fields: rules.Fields(TerminationConfig{}),
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

func noEcho(v any) string {
	if v == true {
		return "not supported: answers are prepared ahead and cannot repeat the request"
	}
	return ""
}

package gateway

import (
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TerminationConfig is the configuration of a request-termination plugin. Message and Body
// exclude each other. Without both, the text of the status is the message.
type TerminationConfig struct {
	StatusCode  int    `json:"status_code" jsonschema:"default=503,minimum=200,maximum=599"`
	Message     string `json:"message,omitempty" jsonschema:"maxLength=4096"`
	Body        string `json:"body,omitempty" jsonschema:"maxLength=4096"`
	ContentType string `json:"content_type,omitempty" jsonschema:"maxLength=256" jsonschema_extras:"x-check=header"`
	Trigger     string `json:"trigger,omitempty" jsonschema:"maxLength=128" jsonschema_extras:"x-check=header-name"`
	Echo        bool   `json:"echo" jsonschema:"default=false" jsonschema_extras:"x-check=no-echo"`
}

// terminationSchema describes the configuration of a request-termination plugin.
var terminationSchema = &model.Schema{
	Fields: rules.With(model.Rules{
		Checks: map[string]func(any) string{
			"no-echo": noEcho,
		},
	}).Fields(TerminationConfig{}),
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

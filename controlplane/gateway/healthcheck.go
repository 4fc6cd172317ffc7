package gateway

import (
	"github.com/meshgate/meshgate/controlplane/model"
)

// Statuses that count where an upstream names none.
var (
	probeHealthy   = []any{int64(200), int64(302)}
	probeUnhealthy = []any{int64(429), int64(404), int64(500), int64(501), int64(502), int64(503), int64(504), int64(505)}
	usedHealthy    = []any{
		int64(200), int64(201), int64(202), int64(203), int64(204), int64(205), int64(206), int64(207), int64(208), int64(226),
		int64(300), int64(301), int64(302), int64(303), int64(304), int64(305), int64(306), int64(307), int64(308),
	}
	usedUnhealthy = []any{int64(429), int64(500), int64(503)}
)

// healthchecksSchema describes the health checks of an upstream. Times are in
// seconds.
var healthchecksSchema = &model.Schema{Fields: []model.Field{
	{Name: "active", Type: model.Record, Required: true, Schema: activeSchema},
	{Name: "passive", Type: model.Record, Required: true, Schema: passiveSchema},
	{Name: "threshold", Type: model.Number, Required: true, Default: float64(0), Between: &[2]int64{0, 100}},
}}

var activeSchema = &model.Schema{Fields: []model.Field{
	checkType(),
	{Name: "timeout", Type: model.Number, Required: true, Default: float64(1), Between: &[2]int64{0, 65535}, Check: positiveText},
	// Proxies have no bound of the targets that they probe at once: it is kept
	// and shown for the tools that set it, and has no effect.
	{Name: "concurrency", Type: model.Integer, Required: true, Default: int64(10), Between: &[2]int64{1, 1 << 31}},
	{Name: "http_path", Type: model.String, Required: true, Default: "/", MaxLen: 1024, Check: servicePathText},
	{Name: "https_sni", Type: model.String, MaxLen: 253, Check: hostText},
	enabledFlag("https_verify_certificate"),
	{Name: "headers", Type: model.Map, Elem: &model.Field{Type: model.Array, Elem: &model.Field{Type: model.String, MaxLen: 1024, Check: headerText}}, Check: headerNamesText},
	{Name: "healthy", Type: model.Record, Required: true, Schema: &model.Schema{Fields: []model.Field{
		interval(), statuses(probeHealthy), counter("successes"),
	}}},
	{Name: "unhealthy", Type: model.Record, Required: true, Schema: &model.Schema{Fields: []model.Field{
		interval(), statuses(probeUnhealthy), counter("http_failures"), counter("tcp_failures"), counter("timeouts"),
	}}},
}}

var passiveSchema = &model.Schema{Fields: []model.Field{
	checkType(),
	{Name: "healthy", Type: model.Record, Required: true, Schema: &model.Schema{Fields: []model.Field{
		// Whatever is no failure ends a row of failures, so that these statuses
		// have no effect of their own.
		statuses(usedHealthy), counter("successes"),
	}}},
	{Name: "unhealthy", Type: model.Record, Required: true, Schema: &model.Schema{Fields: []model.Field{
		statuses(usedUnhealthy), counter("http_failures"), counter("tcp_failures"), counter("timeouts"),
	}}},
}}

// Checked reports whether targets are probed or judged by their answers.
func (u *Upstream) Checked() bool {
	active, passive := u.Healthchecks.Active, u.Healthchecks.Passive.Unhealthy
	return active.Healthy.Interval > 0 || active.Unhealthy.Interval > 0 ||
		passive.HTTPFailures > 0 || passive.TCPFailures > 0 || passive.Timeouts > 0
}

func checkType() model.Field {
	return model.Field{
		Name: "type", Type: model.String, Required: true, Default: CheckHTTP,
		OneOf: []string{CheckTCP, CheckHTTP, CheckHTTPS, CheckGRPC, CheckGRPCS},
	}
}

// interval is in seconds; 0 means not to probe.
func interval() model.Field {
	return model.Field{Name: "interval", Type: model.Number, Required: true, Default: float64(0), Between: &[2]int64{0, 65535}, Check: longText}
}

// counter is a number of events in a row; 0 means never.
func counter(name string) model.Field {
	return model.Field{Name: name, Type: model.Integer, Required: true, Default: int64(0), Between: &[2]int64{0, 255}}
}

func statuses(standard []any) model.Field {
	return model.Field{
		Name: "http_statuses", Type: model.Array, Required: true, Default: standard,
		Elem: &model.Field{Type: model.Integer, Between: &[2]int64{100, 599}},
	}
}

func positiveText(v any) string {
	if v.(float64) < 0.001 {
		return "value must be greater than 0"
	}
	return ""
}

// longText refuses intervals that would do nothing but probe.
func longText(v any) string {
	if n := v.(float64); n > 0 && n < 0.1 {
		return "value should be 0 or at least 0.1"
	}
	return ""
}

func headerNamesText(v any) string {
	headers, _ := v.(map[string]any)
	for name := range headers {
		if text := headerNameText(name); text != "" {
			return text
		}
	}
	return ""
}

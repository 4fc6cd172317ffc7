package gateway

import (
	"fmt"
	"slices"

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

// probeConcurrency is the number of targets that are probed at once, as such
// gateways count it; proxies have no bound of that kind, so it cannot be changed.
const probeConcurrency = 10

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
	{
		Name: "concurrency", Type: model.Integer, Required: true, Default: int64(probeConcurrency),
		Between: &[2]int64{1, 1 << 31}, Check: only(int64(probeConcurrency)),
	},
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
		// Whatever is no failure ends a row of failures.
		onlyDefault(statuses(usedHealthy)), counter("successes"),
	}}},
	{Name: "unhealthy", Type: model.Record, Required: true, Schema: &model.Schema{Fields: []model.Field{
		statuses(usedUnhealthy), counter("http_failures"), counter("tcp_failures"), counter("timeouts"),
	}}},
}}

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

func only(value any) func(any) string {
	return func(v any) string {
		if v != value {
			return fmt.Sprintf("not supported: only %v", value)
		}
		return ""
	}
}

// onlyDefault accepts no list but that of the default, in any order.
func onlyDefault(f model.Field) model.Field {
	standard, _ := f.Default.([]any)
	f.Check = func(v any) string {
		list, _ := v.([]any)
		for _, e := range list {
			if !slices.Contains(standard, e) {
				return "not supported: only the default"
			}
		}
		if len(list) != len(standard) {
			return "not supported: only the default"
		}
		return ""
	}
	return f
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

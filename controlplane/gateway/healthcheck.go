package gateway

// Checked reports whether targets are probed or judged by their answers.
func (u *Upstream) Checked() bool {
	active, passive := u.Healthchecks.Active, u.Healthchecks.Passive.Unhealthy
	return active.Healthy.Interval > 0 || active.Unhealthy.Interval > 0 ||
		passive.HTTPFailures > 0 || passive.TCPFailures > 0 || passive.Timeouts > 0
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

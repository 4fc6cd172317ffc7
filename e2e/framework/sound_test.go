package framework

import "testing"

// The lines are what the parts print, through the log of Envoy and that of the
// agent, too.
func TestUnsoundIsSeen(t *testing.T) {
	for _, line := range []string{
		`time=x level=ERROR msg="envoy: msg=\"panic recovered\" where=decide panic=injected stack=\"goroutine 53 [running]:\nruntime/debug...` + "\n",
		`[2026-11-22 08:25:37.052][32318][error][dynamic_modules] msg="goroutine panicked" goroutine=lookup`,
		`level=ERROR msg=stream_panicked node=x`,
		"panic: runtime error: index out of range [0] with length 0",
		"fatal error: concurrent map writes",
		"goroutine 1 [running]:",
		"goroutine 4711 [select, 2 minutes]:",
		"WARNING: DATA RACE",
		`level=ERROR msg="envoy: Caught Segmentation fault, suspect faulting address 0x55da2d5ee520" logger=backtrace`,
	} {
		if len(Unsound("one line before\n"+line)) != 1 {
			t.Errorf("not seen: %s", line)
		}
	}
	for _, line := range []string{
		`level=WARN msg="envoy: caught ENVOY_SIGTERM" logger=main`,
		`level=INFO msg=request path=/panic`,
		`level=ERROR msg="envoy ended unexpectedly and is restarted" error="signal: killed"`,
	} {
		if found := Unsound(line); found != nil {
			t.Errorf("%v", found)
		}
	}
}

package framework

import (
	"fmt"
	"strings"
	"testing"
)

func print(t *testing.T, o *output, format string, args ...any) {
	t.Helper()
	if _, err := fmt.Fprintf(o, format, args...); err != nil {
		t.Fatal(err)
	}
}

// What a long run prints does not fill the memory, and nothing unsound is lost with it.
func TestOutputIsBounded(t *testing.T) {
	o := &output{}
	print(t, o, "begin\npan")
	print(t, o, "ic: first\n")
	line := strings.Repeat("x", 1023) + "\n"
	for range 3 * kept / len(line) {
		print(t, o, "%s", line)
	}
	print(t, o, "the end")
	all := o.String()
	if len(all) > kept+100 || cap(o.buf) > 2*kept || !strings.HasSuffix(all, "\nthe end") || strings.Contains(all, "begin") {
		t.Errorf("%d bytes are kept in %d, the last are %q", len(all), cap(o.buf), all[len(all)-20:])
	}
	var before int
	if _, err := fmt.Sscanf(all, "(%d bytes before)\n", &before); err != nil {
		t.Fatal(err)
	}
	header := strings.IndexByte(all, '\n') + 1
	if printed := len("begin\npanic: first\nthe end") + 3*kept/len(line)*len(line); before+len(all)-header != printed {
		t.Errorf("%d bytes before %d make not %d", before, len(all)-header, printed)
	}
	if found := o.takeUnsound(false); len(found) != 1 || found[0] != "panic: first" {
		t.Errorf("found %q", found)
	}
	if found := o.takeUnsound(true); found != nil {
		t.Errorf("found again %q", found)
	}
}

// A line counts when it is whole or when nothing more comes, and not when its process was
// asked for stacks.
func TestUnsoundLinesAreTaken(t *testing.T) {
	o := &output{}
	print(t, o, "good\nWARNING: DATA RACE\nfatal error: half")
	if found := o.takeUnsound(false); len(found) != 1 || found[0] != "WARNING: DATA RACE" {
		t.Errorf("whole lines: %q", found)
	}
	if found := o.takeUnsound(true); len(found) != 1 || found[0] != "fatal error: half" {
		t.Errorf("the last line: %q", found)
	}
	print(t, o, "panic: before\n")
	o.expectStacks()
	print(t, o, "goroutine 1 [running]:\n")
	if found := o.takeUnsound(true); len(found) != 1 || found[0] != "panic: before" {
		t.Errorf("asked: %q", found)
	}
}

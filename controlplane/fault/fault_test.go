package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestText: an error says all, and what is shown of it lacks the cause.
func TestText(t *testing.T) {
	two := []Violation{{Path: "name", Message: "is required"}, {Message: "is odd"}}
	for _, test := range []struct {
		err         error
		want, shown string
	}{
		{New(NotFound, "no %s %q", "route", "a"), `no route "a"`, `no route "a"`},
		{Wrap(Unavailable, io.ErrUnexpectedEOF, "later"), "later: unexpected EOF", "later"},
		{Violated(two), "the input is not valid: name: is required; is odd", "the input is not valid: name: is required; is odd"},
		{&Error{Code: Invalid, Detail: "no", Violations: two[:1], cause: io.EOF}, "no: name: is required: EOF", "no: name: is required"},
	} {
		e, _ := errors.AsType[*Error](test.err)
		if diff := cmp.Diff([]string{test.want, test.shown}, []string{test.err.Error(), e.Shown()}); diff != "" {
			t.Error(diff)
		}
	}
}

func TestCodeOf(t *testing.T) {
	inner := New(Conflict, "lost")
	for _, test := range []struct {
		name string
		err  error
		want Code
	}{
		{"nil", nil, ""},
		{"no code", io.EOF, Internal},
		{"plain", inner, Conflict},
		{"wrapped", fmt.Errorf("write: %w", inner), Conflict},
		{"joined", errors.Join(io.EOF, inner), Conflict},
		{"the outer code counts", Wrap(Unavailable, inner, "later"), Unavailable},
		{"with a subject", inner.With(7), Conflict},
	} {
		if got := CodeOf(test.err); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestIs: nil is not a fault of any code, not even of the empty one.
func TestIs(t *testing.T) {
	err := fmt.Errorf("read: %w", New(NotFound, "gone"))
	if !Is(err, NotFound) || Is(err, Conflict) || Is(nil, "") || Is(nil, Internal) || !Is(io.EOF, Internal) {
		t.Error(Is(err, NotFound), Is(err, Conflict), Is(nil, ""), Is(nil, Internal), Is(io.EOF, Internal))
	}
}

// TestViolatedNothing: Violated returns an untyped nil, so that callers may compare it.
func TestViolatedNothing(t *testing.T) {
	if err := Violated(nil); err != nil {
		t.Errorf("%#v", err)
	}
	if err := Violated([]Violation{}); err != nil {
		t.Errorf("%#v", err)
	}
}

func TestUnwrap(t *testing.T) {
	err := Wrap(Internal, fmt.Errorf("query: %w", context.Canceled), "unexpected")
	if !errors.Is(err, context.Canceled) {
		t.Error("the cause is lost")
	}
	if New(Internal, "x").Unwrap() != nil {
		t.Error("a cause from nowhere")
	}
}

// TestWith: With does not change the original, which may be shared.
func TestWith(t *testing.T) {
	plain := Wrap(Unique, io.EOF, "taken")
	got := plain.With("client_id")
	if plain.Subject != nil || got.Subject != "client_id" || got.Detail != "taken" || !errors.Is(got, io.EOF) {
		t.Errorf("%#v, %#v", plain, got)
	}
}

package fault

import "errors"

// notBegun is a reason why a program did not begin.
type notBegun struct{ error }

func (e notBegun) Unwrap() error { return e.error }

// NotBegun marks an error as a reason why a program did not begin. Nothing that is served has
// changed; the program shows the error as one line and ends with its own exit code. The mark
// of nil is nil.
func NotBegun(err error) error {
	if err == nil {
		return nil
	}
	return notBegun{err}
}

// Begun reports whether a program that ended with an error had begun, which means that no
// error in the chain is marked by [NotBegun].
func Begun(err error) bool {
	_, marked := errors.AsType[notBegun](err)
	return !marked
}

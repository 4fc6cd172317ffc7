package cli

// Exit codes, which `meshgate status` has of its own; see statusHelp. A program that did
// not start has changed nothing that is served.
const (
	ExitFailed   = 1
	ExitNotBegun = 2
)

// CodedError ends the program with a code, and with a line if it has a text.
type CodedError struct {
	Code int
	Text string
}

func (e CodedError) Error() string { return e.Text }

package cli

// Exit codes; `meshgate status` has its own, see statusHelp. ExitNotBegun means that nothing
// that is served has changed.
const (
	ExitFailed   = 1
	ExitNotBegun = 2
)

// CodedError ends the program with a code and, unless Text is empty, with a line.
type CodedError struct {
	Code int
	Text string
}

func (e CodedError) Error() string { return e.Text }

package attacker_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// failure is an answer that is an error of the server: but that it does not implement a
// framing that nobody does, and does not speak a version that nobody speaks. It may follow
// another one whose body ends without a line break.
var failure = regexp.MustCompile(`HTTP/1\.[01] 5(0[02346-9]|[1-9]\d)[ \r]`)

// failed says the same of a status.
func failed(status int) bool {
	return status >= http.StatusInternalServerError && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported
}

// judgeText judges what came before the end of a connection.
func (s *siege) judgeText(p *port, text string, err error) string {
	if silence(err) != nil {
		return errSilence.Error()
	}
	if text == "" {
		s.count("ended without a word")
		return ""
	}
	s.count("ended with a word")
	switch {
	case p.commands:
		return judgeReplies(text)
	case failure.MatchString(text):
		return fmt.Sprintf("failed: %q", text)
	case p.calls:
		return s.judgeFrames(text)
	}
	return ""
}

// judgeReplies judges the replies of a Redis to somebody without its password: each is an error,
// whatever came before it.
func judgeReplies(text string) string {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "-") {
			return fmt.Sprintf("answered %q in %q", line, text)
		}
	}
	return ""
}

// judgeFrames judges the answers in what came over HTTP/2; anything else is no answer.
func (s *siege) judgeFrames(text string) string {
	in := &session{framer: http2.NewFramer(io.Discard, strings.NewReader(text)), byStream: map[uint32]*answer{}}
	in.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, _ = in.read(math.MaxInt) // until there is nothing more, or nothing that can be read
	for _, a := range in.byStream {
		if problem := s.judgeCall(*a); problem != "" {
			return problem
		}
	}
	return ""
}

// judgeCall judges the answer to a call of gRPC by nobody, and to a request by who only speaks
// gRPC. A stream that was reset has no status.
func (s *siege) judgeCall(a answer) string {
	s.count(fmt.Sprintf("call answered %d %s", a.status, a.grpc))
	switch {
	case a.status == http.StatusOK && (a.grpc == "0" || a.grpc == "" || a.body != ""):
		return fmt.Sprintf("a call by nobody was served: %+v", a)
	case failed(a.status) || a.status == http.StatusOK && slices.Contains(failures, a.grpc):
		return fmt.Sprintf("a call failed: %+v", a)
	}
	return ""
}

// failures are the statuses of gRPC that are mistakes of a server: unknown, internal,
// unavailable, data loss.
var failures = []string{"2", "13", "14", "15"}

// judgeSane judges the answers to a request that is well formed and to the one after it.
func (s *siege) judgeSane(p *port, answers []answer) string {
	for _, x := range answers {
		s.count(fmt.Sprintf("answer %d", x.status))
		if failed(x.status) {
			return fmt.Sprintf("an error of the control plane: %+v", x)
		}
	}
	switch {
	case len(answers) == 0:
		return "a request that is well formed got no answer"
	case len(answers) == 1 && !answers[0].last:
		return fmt.Sprintf("the connection ended without being announced: %+v", answers)
	case len(answers) == 2 && answers[1].status != p.status:
		return fmt.Sprintf("who came next on the connection got %+v, not %d", answers[1], p.status)
	case len(answers) == 2:
		s.count("served next")
	}
	return ""
}

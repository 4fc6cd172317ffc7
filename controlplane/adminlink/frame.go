package adminlink

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// The request that opens a link.
const (
	Path     = "/admin-link"
	Protocol = "meshgate-admin"
	// NodeHeader carries the node id.
	NodeHeader = "X-Meshgate-Node"
)

// Limits of a link.
const (
	// MaxBody bounds an answer in bytes.
	MaxBody = 64 << 20
	// AskTimeout bounds a question from its turn to the last chunk of the answer.
	AskTimeout = 10 * time.Second
	// fetchTimeout bounds the work of the agent for one question. It is shorter than
	// AskTimeout, so that an Envoy that hangs costs an answer and not the link.
	fetchTimeout = AskTimeout - 2*time.Second

	maxFrame  = 1 << 16
	frameHead = 1 + 8
	maxChunk  = maxFrame - frameHead
	// idle ends a link whose other side is silent. Pings come three times as often.
	idle      = 45 * time.Second
	pingEvery = idle / 3
	// maxReason bounds the text of a failure in bytes.
	maxReason = 1 << 10
)

type kind uint8

// Frames from the control plane (C) and from the agent (A).
const (
	ask  kind = iota + 1 // C: question as JSON
	data                 // A: a chunk of the answer
	end                  // A: the answer is complete
	fail                 // A: there is no answer; the body says why
	ping                 // C: requests a pong; the body says in which form
	pong                 // A: the body is a [Report], or only the trouble
)

type frame struct {
	kind kind
	id   uint64
	body []byte
}

// question is the body of an ask.
type question struct {
	Path string `json:"path"`
	// Max bounds the answer in bytes.
	Max int64 `json:"max"`
	// Roots is set only with [RootsPath].
	Roots []byte `json:"roots,omitempty"`
}

// RenewPath is not a path of Envoy. It asks the agent to take a new token, because the key
// that signed the present one is being removed. The answer is empty and comes at once.
const RenewPath = "/token"

// RootsPath is not a path of Envoy either. The question carries the certificates by which
// the agent has to verify the control plane from now on. The answer is empty and comes once
// they are stored.
const RootsPath = "/roots"

// allowed are the paths that may be requested. All except [RenewPath] and [RootsPath] only
// read.
var allowed = []string{
	RenewPath, RootsPath,
	"/ready", "/server_info", "/listeners", "/listeners?format=json",
	"/config_dump", "/config_dump?include_eds",
	"/clusters", "/clusters?format=json",
	"/stats", "/stats?format=json", "/stats?usedonly", "/stats?usedonly&format=json", "/stats/prometheus", "/stats/prometheus?usedonly",
}

// Allowed reports whether a path may be requested.
func Allowed(path string) bool { return slices.Contains(allowed, path) }

// write writes one frame with one call. Callers set deadlines.
func write(w io.Writer, f frame) error {
	if len(f.body) > maxChunk {
		return fmt.Errorf("frame of %d bytes exceeds the limit", len(f.body))
	}
	b := make([]byte, 0, 4+frameHead+len(f.body))
	b = binary.BigEndian.AppendUint32(b, uint32(frameHead+len(f.body))) //nolint:gosec // bounded above
	b = binary.BigEndian.AppendUint64(append(b, byte(f.kind)), f.id)
	_, err := w.Write(append(b, f.body...))
	return err
}

func read(r io.Reader) (frame, error) {
	var head [4 + frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < frameHead || n > maxFrame {
		return frame{}, fmt.Errorf("frame length %d is out of range", n)
	}
	f := frame{kind: kind(head[4]), id: binary.BigEndian.Uint64(head[5:]), body: make([]byte, n-frameHead)}
	if _, err := io.ReadFull(r, f.body); err != nil {
		return frame{}, err
	}
	return f, nil
}

func parseQuestion(body []byte) (q question, err error) {
	if err := json.Unmarshal(body, &q); err != nil {
		return q, fmt.Errorf("decode question: %w", err)
	}
	if q.Max < 0 || q.Max > MaxBody {
		return q, fmt.Errorf("a question for %d bytes is out of range", q.Max)
	}
	return q, nil
}

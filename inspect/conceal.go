package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/meshgate/meshgate/xds/concealed"
)

// redacted replaces values that nobody may read. Envoy writes the same for values that it
// knows to be secret, such as private keys.
const redacted = `"[redacted]"`

// reasons are the members in which Envoy says, in its own words, why it refuses something.
var reasons = map[string]bool{"error_state": true, "errorState": true}

// errNoDump is the error of an answer that is not a dump.
var errNoDump = errors.New("its answer is no JSON object")

// Conceal returns a dump without values that may be credentials (see [concealed]). The rest
// stays byte for byte. The error says that the dump is not a JSON object.
func Conceal(dump []byte) ([]byte, error) {
	if !json.Valid(dump) || !bytes.HasPrefix(bytes.TrimLeft(dump, " \t\r\n"), []byte("{")) {
		return nil, errNoDump
	}
	found := false
	for _, member := range concealed.Members {
		found = found || bytes.Contains(dump, []byte(member))
	}
	if !found {
		return dump, nil // most dumps have none, and parsing a large one takes long
	}
	c := concealer{in: json.NewDecoder(bytes.NewReader(dump)), dump: dump}
	c.in.UseNumber()
	if err := c.run(); err != nil {
		return nil, err
	}
	return append(c.out.Bytes(), dump[c.done:]...), nil
}

// concealer copies a dump without the concealed values.
type concealer struct {
	in   *json.Decoder
	dump []byte
	out  bytes.Buffer
	done int64 // how much of dump is already in out
	open []level
}

// level is an object or a list that is still open.
type level struct {
	object bool
	// member is the name whose value comes next; named says that there is one.
	member string
	named  bool
	// at says what is concealed in the level. header is the header that it describes, once that is
	// known.
	at     concealed.Place
	header string
	// reason says that the level tells why something is refused. Its words may quote headers
	// that are to be concealed.
	reason bool
}

func (c *concealer) run() error {
	for {
		before := c.in.InputOffset()
		token, err := c.in.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errNoDump
		}
		switch t := token.(type) {
		case json.Delim:
			c.delimiter(t)
		case string:
			c.text(t, before)
		default:
			c.valued()
		}
	}
}

// top returns the innermost level, or an empty one outside of all levels.
func (c *concealer) top() *level {
	if len(c.open) == 0 {
		return &level{}
	}
	return &c.open[len(c.open)-1]
}

func (c *concealer) delimiter(d json.Delim) {
	if d == '}' || d == ']' {
		c.open = c.open[:len(c.open)-1]
		c.valued()
		return
	}
	above := c.top()
	at := above.at
	if above.named {
		at = at.Within(above.member)
	}
	c.open = append(c.open, level{object: d == '{', at: at, reason: above.named && reasons[above.member]})
}

// text handles a name or a value that begins after an offset.
func (c *concealer) text(t string, before int64) {
	top := c.top()
	if top.object && !top.named {
		top.member, top.named = t, true
		return
	}
	if top.member == "key" {
		top.header = t
	}
	if top.at.Conceals(top.member, top.header) || top.reason && top.member == "details" {
		start := before + int64(bytes.IndexByte(c.dump[before:], '"'))
		c.out.Write(c.dump[c.done:start])
		c.out.WriteString(redacted)
		c.done = c.in.InputOffset()
	}
	c.valued()
}

// valued notes that a member has got its value.
func (c *concealer) valued() { c.top().named = false }

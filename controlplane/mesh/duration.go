package mesh

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
)

// Duration is a time span in the notation of the mesh API. It is read in Go's notation
// (1m30s) and shown in seconds with 0, 3, 6 or 9 decimals (90s, 0.025s). Optional fields are
// pointers, so that a given zero is kept.
type Duration time.Duration

// Of returns a pointer to a duration, for defaults.
func Of(d time.Duration) *Duration { return (*Duration)(&d) }

// Or returns the duration, or a default if there is none.
func (d *Duration) Or(otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return time.Duration(*d)
}

// String returns the form that is shown.
func (d Duration) String() string {
	n := int64(d)
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	out := sign + strconv.FormatInt(n/int64(time.Second), 10)
	if rest := n % int64(time.Second); rest != 0 {
		digits := fmt.Sprintf("%09d", rest)
		for strings.HasSuffix(digits, "000") {
			digits = strings.TrimSuffix(digits, "000")
		}
		out += "." + digits
	}
	return out + "s"
}

// JSONSchema describes the accepted and the shown form.
func (Duration) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`, Description: "A span such as 1m30s; it is shown in seconds"}
}

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("a duration is a string such as 5s")
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

package audit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
)

// keySignature is the member of the signature.
const keySignature = "sig"

// members lists the members of the JSON object, without the signature, sorted by their keys.
func (o Origin) members(e *Event) []field {
	h := e.head()
	list := append(e.fields(),
		field{"cef_version", cefVersion}, field{"event_vendor", o.Vendor}, field{"event_product", h.product}, field{"event_version", version},
		field{"event_class_id", h.class}, field{"name", h.name}, field{"severity", h.severity}, field{"event_ts", stamp(e.Time)})
	slices.SortFunc(list, func(a, b field) int { return cmp.Compare(a.key, b.key) })
	return list
}

// JSON returns an event as a JSON object on one line. The signature is of the object without the
// member sig: its keys sorted, without white space, not escaped for HTML. What is signed is encoded once,
// and the signature put into its place.
func (o Origin) JSON(e *Event, s *Signer) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	place := 0
	for i, m := range o.members(e) {
		if place == 0 && m.key > keySignature {
			place = b.Len()
		}
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(`"` + m.key + `":`) // keys are words of ours
		if err := enc.Encode(m.value); err != nil {
			return nil, err
		}
		b.Truncate(b.Len() - 1) // the line break
	}
	if place == 0 {
		place = b.Len()
	}
	b.WriteByte('}')
	plain := b.Bytes()
	member := `,"` + keySignature + `":"` + s.Sign(plain) + `"`
	line := make([]byte, 0, len(plain)+len(member))
	return append(append(append(line, plain[:place]...), member...), plain[place:]...), nil
}

package audit

import (
	"cmp"
	"encoding/base64"
	"slices"
)

// keySignature is the member of the signature.
const keySignature = "sig"

// mostMembers is room for the members of any event.
const mostMembers = 32

// members lists the members of the JSON object, without the signature, sorted by their keys.
func (o Origin) members(e *Event) []field {
	h := e.head()
	list := append(e.fields(),
		number("cef_version", cefVersion), text("event_vendor", o.Vendor), text("event_product", h.product), text("event_version", version),
		text("event_class_id", h.class), text("name", h.name), number("severity", int64(h.severity)), text("event_ts", stamp(e.Time)))
	slices.SortFunc(list, func(a, b field) int { return cmp.Compare(a.key, b.key) })
	return list
}

// sizeOf is room for the JSON object with its signature, if little in it is escaped.
func sizeOf(members []field) int {
	const each, signed = 32, 128 // a key with a number, and the signature
	n := signed
	for i := range members {
		n += each + len(members[i].text)
	}
	return n
}

// JSON returns an event as a JSON object on one line. The signature is of the object without the
// member sig: its keys sorted, without white space, not escaped for HTML. What is signed is encoded once,
// and the signature put into its place.
func (o Origin) JSON(e *Event, s *Signer) []byte {
	members := o.members(e)
	b := make([]byte, 0, sizeOf(members))
	place := 0
	for i := range members {
		m := &members[i]
		if place == 0 && m.key > keySignature {
			place = len(b)
		}
		b = append(append(append(b, "{,"[min(i, 1)], '"'), m.key...), '"', ':') // keys are words of ours
		b = m.appendJSON(b)
	}
	if place == 0 {
		place = len(b)
	}
	b = append(b, '}')
	var room [128]byte
	member := append(room[:0], `,"`+keySignature+`":"`...)
	member = append(base64.RawURLEncoding.AppendEncode(member, s.signature(b)), '"')
	return slices.Insert(b, place, member...)
}

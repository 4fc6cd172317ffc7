package audit

import (
	"bytes"
	"encoding/json"
)

// fields returns the members of the JSON object, without the signature.
func (o Origin) fields(e *Event) map[string]any {
	h := e.head()
	out := map[string]any{
		"cef_version": cefVersion, "event_vendor": o.Vendor, "event_product": h.product, "event_version": version,
		"event_class_id": h.class, "name": h.name, "severity": h.severity, "event_ts": stamp(e.Time),
	}
	for _, f := range e.fields() {
		out[f.key] = f.value
	}
	return out
}

// JSON returns an event as a JSON object on one line. The signature is of the object without the
// member sig: its keys sorted, without white space, not escaped for HTML.
func (o Origin) JSON(e *Event, s *Signer) ([]byte, error) {
	fields := o.fields(e)
	plain, err := compact(fields)
	if err != nil {
		return nil, err
	}
	fields["sig"] = s.Sign(plain)
	return compact(fields)
}

// compact encodes a map with sorted keys, as encoding/json does.
func compact(fields map[string]any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fields); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

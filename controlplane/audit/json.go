package audit

import (
	"bytes"
	"encoding/json"
)

// fields returns the members of the JSON object, without the signature.
func (o Origin) fields(e *Event) map[string]any {
	return map[string]any{
		"cef_version": cefVersion, "event_vendor": o.Vendor, "event_product": product, "event_version": version,
		"event_class_id": prefixMethod + string(e.Method), "name": prefixOutcome + string(e.Outcome),
		"severity": e.Outcome.severity(), "success": e.Outcome == Success,
		"event_ts": stamp(e.Time), "rt": e.Time.UnixMilli(), "event_id": e.ID,
		"src": e.source(), "request": e.Request, "user_agent": e.UserAgent,
		"org_id": e.Organization, "portal_id": e.Portal, "principal_id": e.Principal, "trace_id": e.Trace,
	}
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

package audit

import (
	"bytes"
	"encoding/json"
)

// The members of the JSON object before and after the signature, whose keys are sorted.
type (
	membersBefore struct {
		CEFVersion int    `json:"cef_version"`
		ClassID    string `json:"event_class_id"`
		ID         string `json:"event_id"`
		Product    string `json:"event_product"`
		Time       string `json:"event_ts"`
		Vendor     string `json:"event_vendor"`
		Version    string `json:"event_version"`
		Name       string `json:"name"`
		Org        string `json:"org_id"`
		Portal     string `json:"portal_id"`
		Principal  string `json:"principal_id"`
		Request    string `json:"request"`
		At         int64  `json:"rt"`
		Severity   int    `json:"severity"`
	}
	membersAfter struct {
		Source    string `json:"src"`
		Success   bool   `json:"success"`
		Trace     string `json:"trace_id"`
		UserAgent string `json:"user_agent"`
	}
)

// JSON returns an event as a JSON object on one line. The signature is of the object without the
// member sig: its keys sorted, without white space, not escaped for HTML. What is signed is encoded once,
// and the signature put into its place.
func (o Origin) JSON(e *Event, s *Signer) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(membersBefore{
		cefVersion, prefixMethod + string(e.Method), e.ID, product, stamp(e.Time), o.Vendor, version, prefixOutcome + string(e.Outcome),
		e.Organization, e.Portal, e.Principal, e.Request, e.Time.UnixMilli(), e.Outcome.severity(),
	}); err != nil {
		return nil, err
	}
	b.Truncate(b.Len() - len("}\n"))
	place := b.Len()
	if err := enc.Encode(membersAfter{e.source(), e.Outcome == Success, e.Trace, e.UserAgent}); err != nil {
		return nil, err
	}
	plain := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	plain[place] = ',' // instead of the brace of the second object
	sig := s.Sign(plain)
	line := make([]byte, 0, len(plain)+len(`,"sig":""`)+len(sig))
	line = append(append(append(line, plain[:place]...), `,"sig":"`...), sig...)
	return append(append(line, '"'), plain[place:]...), nil
}

package cloudapi

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/portal"
)

// form describes a body that is no resource. Its mistakes are told as those of resources are.
type form struct{ *Collection }

// newForm describes the body of the type of spec; optional members say omitempty. What is left out stays as it
// is, so null could only mean the same, and is refused: who sends it wants to empty a member.
func newForm(spec any) form {
	kind := formRules.Describe(spec, model.Kind{Schema: &model.Schema{CreatedUnit: time.Millisecond}})
	for i := range kind.Schema.Fields {
		f := &kind.Schema.Fields[i]
		f.NotNull = !f.Required && !f.Meta
	}
	return form{&Collection{Kind: kind}}
}

var formRules = &model.Rules{Checks: map[string]func(any) string{
	"uuid":     uuidText,
	"time":     cloud.TimeText,
	"password": func(v any) string { return portal.CheckPassword(v.(string)) },
}}

func uuidText(v any) string {
	if !model.IsUUID(v.(string)) {
		return model.TextUUID
	}
	return ""
}

// maxForm bounds the body of a form.
const maxForm = 16 << 10

// object reads a body, which must be JSON: a page of another site can make a browser send a form, but
// not this, unless it is asked before, which this API never grants.
func object(w http.ResponseWriter, r *http.Request) (map[string]any, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	body, err := httpkit.ReadBody(r)
	switch {
	case err != nil:
		return nil, err
	case body.Text || r.Header.Get("Content-Type") == "":
		return nil, &httpkit.BodyError{Status: http.StatusUnsupportedMediaType}
	case len(body.Repeated) > 0:
		return body.Values, fault.Violated(body.Repeated)
	}
	return body.Values, nil
}

// fill reads a body into a spec of the form.
func (f form) fill(a *API, w http.ResponseWriter, r *http.Request, into any) error {
	given, err := object(w, r)
	if err == nil {
		err = f.check(a, given, into)
	} else if fault.Is(err, fault.Invalid) {
		err = served{a, f.Collection}.refusal(err, given)
	}
	return err
}

// check takes what was given into a spec of the form.
func (f form) check(a *API, given map[string]any, into any) error {
	s := served{a, f.Collection}
	err := s.foreignMembers(given)
	var written *model.Write
	if err == nil {
		written, err = f.Kind.Schema.Process(model.OpCreate, given, nil)
	}
	if fault.Is(err, fault.Invalid) {
		return s.refusal(err, given)
	}
	if err != nil {
		return err
	}
	return decode(written.New, into)
}

// decode takes a checked entity into a spec.
func decode(entity map[string]any, into any) error {
	raw, err := json.Marshal(entity)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	return err
}

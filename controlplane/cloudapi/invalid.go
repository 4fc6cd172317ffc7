package cloudapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// The rules by which parameters are invalid.
const (
	ruleRequired = "required"
	ruleUnknown  = "unknown_property"
	ruleEnum     = "enum"
	ruleInvalid  = "invalid"
	ruleNumber   = "is_number"
	ruleMax      = "max"
	ruleMaxLen   = "max_length"
	ruleMinLen   = "min_length"
	fromBody     = "body"
	fromQuery    = "query"
)

// typeRules are the rules of values that have another type than their field.
var typeRules = map[model.FieldType]string{
	model.String: "is_string", model.Integer: "is_integer", model.Number: "is_number", model.Boolean: "is_boolean",
	model.Array: "is_array", model.Set: "is_array", model.Map: "is_object", model.Record: "is_object", model.Foreign: "is_uuid",
}

// textRules are the rules of which a text alone speaks.
var textRules = map[string]string{model.TextUUID: "is_uuid", cloud.TextTime: "is_date_time"}

// refusal is the document for the violations of a body.
func (s served) refusal(err error, given map[string]any) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || len(e.Violations) == 0 {
		return err
	}
	if p := s.blank(e.Violations, given); p != nil {
		return p
	}
	list := make([]invalid, len(e.Violations))
	for i, v := range e.Violations {
		list[i] = s.invalid(v, given)
	}
	return refused(list...)
}

// blank is the document for the first member that is missing or empty and has a sentence of its own.
func (s served) blank(vs []fault.Violation, given map[string]any) *problem {
	for _, v := range vs {
		text, special := s.Blank[v.Path]
		switch value, _ := given[v.Path].(string); {
		case !special:
		case given[v.Path] == nil, value == "" && v.Message == model.TextEmpty:
			return &problem{
				Status: http.StatusBadRequest, Title: "Bad Request", Detail: "Required field missing",
				Invalid: []invalid{{Field: v.Path, Reason: text, Rule: ruleRequired, Source: fromBody}},
			}
		}
	}
	return nil
}

// invalid says what is wrong with a member, and by which rule. The rule follows from the field and
// from what was given.
func (s served) invalid(v fault.Violation, given map[string]any) invalid {
	out := invalid{Field: v.Path, Reason: v.Message, Source: fromBody, Rule: ruleInvalid}
	f, value := place(s.Kind.Schema, v.Path, given)
	switch text, isText := value.(string); {
	case f == nil, f.Meta, f.Hidden:
		out.Rule, out.Reason = ruleUnknown, "property "+v.Path+" should not exist"
	case value == nil:
		out.Rule, out.Reason = ruleRequired, strconv.Quote(v.Path)+" is required"
	case !fits(f, value):
		out.Rule = typeRules[f.Type]
	case textRules[v.Message] != "":
		out.Rule = textRules[v.Message]
	case isText && text == "":
		least := 1
		out.Rule, out.Minimum = ruleMinLen, &least
	case isText && f.MaxLen > 0 && len(text) > f.MaxLen:
		out.Rule, out.Maximum = ruleMaxLen, &f.MaxLen
	case len(f.OneOf) > 0:
		out.Rule, out.Choices = ruleEnum, f.OneOf
	}
	return out
}

// place finds the field and the value at a path.
func place(s *model.Schema, path string, given map[string]any) (*model.Field, any) {
	var f *model.Field
	var value any = given
	for name := range strings.SplitSeq(path, ".") {
		if s == nil {
			return f, value
		}
		if f = s.Field(name); f == nil {
			return nil, nil
		}
		m, _ := value.(map[string]any)
		value, s = m[name], f.Schema
	}
	return f, value
}

// fits reports whether a value of JSON has the type of a field.
func fits(f *model.Field, value any) bool {
	switch value.(type) {
	case string:
		return f.Type == model.String || f.Type == model.Foreign
	case bool:
		return f.Type == model.Boolean
	case json.Number:
		return f.Type == model.Integer || f.Type == model.Number
	case []any:
		return f.Type == model.Array || f.Type == model.Set
	case map[string]any:
		return f.Type == model.Map || f.Type == model.Record || f.Type == model.Foreign
	}
	return false
}

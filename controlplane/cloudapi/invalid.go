package cloudapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
)

// The rules by which parameters are invalid.
const (
	ruleRequired = "required"
	ruleUnknown  = "unknown_property"
	ruleEnum     = "enum"
	ruleInvalid  = "invalid"
	ruleNumber   = "is_number"
	ruleMin      = "min"
	ruleMax      = "max"
	ruleMaxLen   = "max_length"
	ruleMinLen   = "min_length"
	ruleMinItems = "min_items"
	ruleMaxItems = "max_items"
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
	switch {
	case !ok:
		return err
	case len(e.Violations) == 0:
		return refused(invalid{Field: fromBody, Reason: e.Detail, Rule: ruleInvalid, Source: fromBody})
	}
	list := make([]invalid, len(e.Violations))
	for i, v := range e.Violations {
		list[i] = s.invalid(v, given)
	}
	return s.refused(list...)
}

// mistaken is a member, and the rule by which it is invalid. An empty member is any.
type mistaken struct{ member, rule string }

// sentence is what an answer says of a mistake. An empty reason is the usual one.
type sentence struct{ title, detail, reason string }

// sentence returns what is said of a mistake, if that has a sentence of its own.
func (c *Collection) sentence(member, rule string) (say sentence, own bool) {
	if say, own = c.Sentences[mistaken{member, rule}]; !own {
		say, own = c.Sentences[mistaken{"", rule}]
	}
	return say, own
}

// refused is the document for what is wrong with a body. A sentence of its own tells only of the mistakes
// that it is about; the others are told when these are mended.
func (c *Collection) refused(list ...invalid) *problem {
	var first *sentence
	var about []invalid
	for _, i := range list {
		say, own := c.sentence(i.Field, i.Rule)
		if !own || first != nil && say != *first {
			continue
		}
		first = &say
		i.Reason = cmp.Or(say.reason, i.Reason)
		about = append(about, i)
	}
	if first == nil {
		return refused(list...)
	}
	return &problem{Status: http.StatusBadRequest, Title: first.title, Detail: first.detail, Invalid: about}
}

// invalid says what is wrong with a member, and by which rule. The rule follows from the field and
// from what was given.
func (s served) invalid(v fault.Violation, given map[string]any) invalid {
	f, value, path := place(s.Kind.Schema, v.Path, given)
	out := invalid{Field: path, Reason: v.Message, Source: fromBody, Rule: ruleInvalid}
	switch text, isText := value.(string); {
	case v.Message == httpkit.TextTwice: // also of a member that there is not
	case f == nil, f.Meta, f.Hidden:
		out.Rule, out.Reason = ruleUnknown, "property "+path+" should not exist"
	case isNull(f, v, value):
		out.Rule, out.Reason = ruleOfType(f), model.TextNotNull
	case value == nil, isText && strings.TrimSpace(text) == "" && s.says(path, ruleRequired):
		out.Rule, out.Reason = ruleRequired, strconv.Quote(path)+" is required"
	case !fits(f, value):
		out.Rule = typeRules[f.Type]
	case textRules[v.Message] != "":
		out.Rule = textRules[v.Message]
	case isText && len(f.OneOf) > 0 && text != "":
		out.Rule, out.Choices = ruleEnum, f.OneOf
	default:
		out.bound(f, value)
	}
	return out
}

// isNull reports whether a violation is about a null that was given for what may be left out. One that may not
// is required, whether it is null or missing.
func isNull(f *model.Field, v fault.Violation, value any) bool {
	optional := !f.Required || f.Default != nil
	return value == nil && optional && (v.Message == model.TextNotNull || v.Message == model.TextRequired)
}

// ruleOfType is the rule by which null is no value of a field. A text that has a form of its own, such as a UUID,
// is not just any text.
func ruleOfType(f *model.Field) string {
	if f.Type == model.String && f.Check != nil {
		if rule := textRules[f.Check("")]; rule != "" {
			return rule
		}
	}
	return typeRules[f.Type]
}

// says reports whether a mistake has a sentence of its own.
func (c *Collection) says(member, rule string) bool {
	_, own := c.sentence(member, rule)
	return own
}

// bound says which limit of a field a value of its type is beyond, if it is beyond one.
func (i *invalid) bound(f *model.Field, value any) {
	switch value := value.(type) {
	case string:
		least, most, size := 1, cmp.Or(f.MaxLen, model.MaxText), len(value)
		if f.Chars != nil {
			least, most, size = f.Chars[0], f.Chars[1], utf8.RuneCountInString(value)
		}
		i.beyond(size, least, most, ruleMinLen, ruleMaxLen)
	case []any:
		i.beyond(len(value), f.MinElements, cmp.Or(f.MostElements, model.MaxElements), ruleMinItems, ruleMaxItems)
	case json.Number:
		if n, err := value.Int64(); err == nil && f.Between != nil {
			i.beyond(int(n), int(f.Between[0]), int(f.Between[1]), ruleMin, ruleMax)
		}
	}
}

// beyond notes the limit that a size is beyond.
func (i *invalid) beyond(size, least, most int, tooLow, tooHigh string) {
	switch {
	case size < least:
		i.Rule, i.Minimum = tooLow, &least
	case size > most:
		i.Rule, i.Maximum = tooHigh, &most
	}
}

// place finds the field and the value at the path of a violation, in which entries of lists count from
// 1, and spells the path as clients know it: members[0].id.
func place(s *model.Schema, path string, given map[string]any) (f *model.Field, value any, spelled string) {
	value = given
	for name := range strings.SplitSeq(path, ".") {
		n, err := strconv.Atoi(name)
		if list, ok := value.([]any); ok && err == nil && n > 0 && n <= len(list) {
			spelled, value = spelled+entry(n-1), list[n-1]
			if f != nil && f.Elem != nil {
				f, s = f.Elem, f.Elem.Schema
			}
			continue
		}
		if spelled != "" {
			spelled += "."
		}
		spelled += name
		m, _ := value.(map[string]any)
		value = m[name]
		switch {
		case s != nil:
			if f = s.Field(name); f != nil {
				s = f.Schema
			} else {
				s = nil
			}
		case f != nil && f.Type == model.Map:
			f = f.Elem
		}
	}
	return f, value, spelled
}

// entry spells the index of an entry of a list.
func entry(n int) string { return "[" + strconv.Itoa(n) + "]" }

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

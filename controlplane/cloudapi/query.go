package cloudapi

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
)

// parameter reads a value of a parameter, and says what is wrong with it.
type parameter func(name, value string) []invalid

// readQuery reads all parameters of a query. by says how one is read, and whether it may be given more than once.
// One without a reader is unknown. Of one that is given twice, only one value would be obeyed, and nobody could
// know which.
func readQuery(query url.Values, by func(name string) (read parameter, repeatable bool)) error {
	var bad []invalid
	for name, values := range query {
		read, repeatable := by(name)
		switch {
		case read == nil:
			bad = append(bad, invalid{Field: name, Reason: "property " + name + " should not exist", Rule: ruleUnknown, Source: fromQuery})
		case len(values) > 1 && !repeatable:
			bad = append(bad, invalid{Field: name, Reason: httpkit.TextTwice, Rule: ruleInvalid, Source: fromQuery})
		default:
			for _, value := range values {
				bad = append(bad, read(name, value)...)
			}
		}
	}
	if len(bad) == 0 {
		return nil
	}
	slices.SortFunc(bad, func(a, b invalid) int { return strings.Compare(a.Field, b.Field) })
	return refused(bad...)
}

// among is the by of [readQuery] for parameters that are given once.
func among(known map[string]parameter) func(name string) (parameter, bool) {
	return func(name string) (parameter, bool) { return known[name], false }
}

// numeric reads a number from 1 to most.
func numeric(most int, into *int) parameter {
	return func(name, value string) []invalid {
		n, err := strconv.Atoi(value)
		switch {
		case err != nil:
			return []invalid{{Field: name, Reason: "must be a number", Rule: ruleNumber, Source: fromQuery}}
		case n < 1:
			least := 1
			return []invalid{{Field: name, Reason: "must be at least 1", Rule: ruleMin, Minimum: &least, Source: fromQuery}}
		case n > most:
			return []invalid{{Field: name, Reason: fmt.Sprintf("must be at most %d", most), Rule: ruleMax, Maximum: &most, Source: fromQuery}}
		}
		*into = n
		return nil
	}
}

// cursor reads the name before or after which a page is.
func cursor(into *string) parameter {
	return func(name, value string) []invalid {
		raw, err := base64.RawURLEncoding.DecodeString(value)
		if err != nil || !model.IsUUID(string(raw)) {
			return []invalid{{Field: name, Reason: "is no cursor of this list", Rule: ruleInvalid, Source: fromQuery}}
		}
		*into = string(raw)
		return nil
	}
}

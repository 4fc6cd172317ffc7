package nodes

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// MaxWait bounds the parameter wait. It is below the write timeout of the servers.
const MaxWait = 30 * time.Second

// Asked is what the query of a request says besides the page: which nodes are selected, and
// whether the answer waits for a change.
type Asked struct {
	Query
	// Since is the caller's mark. With Wait, the answer comes when the current mark is a
	// different one, or when the time is up.
	Since string
	Wait  time.Duration
}

// Ask reads state, name, since and wait. The error is an Invalid fault.
func Ask(query url.Values) (a Asked, err error) {
	a.State, a.Part, a.Since = query.Get("state"), query.Get("name"), query.Get("since")
	var vs []fault.Violation
	if a.State != "" && !slices.Contains(States(), a.State) {
		vs = append(vs, fault.Violation{Path: "state", Message: "must be one of " + strings.Join(States(), ", ")})
	}
	if text := query.Get("wait"); text != "" {
		if a.Wait, err = time.ParseDuration(text); err != nil || a.Wait < 0 || a.Wait > MaxWait {
			vs = append(vs, fault.Violation{Path: "wait", Message: "must be a duration between 0s and " + MaxWait.String()})
		}
	}
	return a, fault.Violated(vs)
}

// Former reads the parameter former, which restricts a removal to former processes. The
// error is an Invalid fault.
func Former(query url.Values) (bool, error) {
	text := query.Get("former")
	if text == "" {
		return false, nil
	}
	former, err := strconv.ParseBool(text)
	if err != nil {
		return false, fault.Violated([]fault.Violation{{Path: "former", Message: "must be true or false"}})
	}
	return former, nil
}

// Follows returns the query of the next page, which does not wait.
func Follows(query url.Values) url.Values {
	out := url.Values{}
	for name, values := range query {
		if name != "since" && name != "wait" {
			out[name] = values
		}
	}
	return out
}

package changes

import (
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Parameters of a query.
const (
	ParamSince  = "since"
	ParamKind   = "kind"
	ParamScope  = "scope"
	ParamActor  = "actor"
	ParamTokens = "tokens"
	ParamSize   = "size"
	ParamOffset = "offset"
)

// actorKinds are the prefixes that the name of an actor may have.
var actorKinds = []model.ActorKind{model.ActorUser, model.ActorToken, model.ActorNode, model.ActorSystem}

// Parse reads what the query of a request asks for, except its size. kinds are the kinds
// that it may name, by name, path or type. A caller that asks since a revision wants to
// follow, so the oldest changes come first. The error is Invalid, with one violation for
// each wrong parameter: a filter that is not understood must not look like one that finds
// nothing.
func Parse(query url.Values, kinds []*model.Kind) (q store.RecordQuery, err error) {
	var wrong []fault.Violation
	bad := func(param, text string) { wrong = append(wrong, fault.Violation{Path: param, Message: text}) }
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if len(query[name]) > 1 {
			bad(name, "must be given once")
		}
	}
	number := func(param, text string) uint64 {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n > math.MaxInt64 {
			bad(param, "must be a number, 0 or more")
		}
		return n
	}
	if query.Has(ParamSince) {
		since := number(ParamSince, query.Get(ParamSince))
		q.Since, q.Oldest = &since, true
	}
	if text := query.Get(ParamOffset); text != "" {
		q.After = number(ParamOffset, text)
	}
	if text := query.Get(ParamKind); text != "" {
		text, without := strings.CutPrefix(text, "!")
		kind := kindOf(text, kinds)
		switch {
		case kind == "":
			bad(ParamKind, "there is no kind "+strconv.Quote(text)+fault.Meant(text, namesOf(kinds)))
		case without:
			q.Without = kind
		default:
			q.Kind = kind
		}
	}
	switch text := query.Get(ParamTokens); text {
	case "true":
		q.Fleeting = true
	case "", "false":
	default:
		bad(ParamTokens, "must be true or false")
	}
	q.Scope, q.Actor = query.Get(ParamScope), query.Get(ParamActor)
	if kind, name, ok := strings.Cut(q.Actor, ":"); ok && slices.Contains(actorKinds, model.ActorKind(kind)) {
		if model.IsHolder(q.Actor) && name != "" {
			q.User = q.Actor // holders of personal access tokens are users, and their names begin like this
		}
		q.ActorKind, q.Actor = model.ActorKind(kind), name
	}
	return q, fault.Violated(wrong)
}

// kindOf returns the name of the kind that a text means, or "".
func kindOf(text string, kinds []*model.Kind) string {
	for _, k := range kinds {
		if strings.EqualFold(text, k.Name) || strings.EqualFold(text, k.Path) ||
			k.Document != nil && strings.EqualFold(text, k.Document.Type) {
			return k.Name
		}
	}
	return ""
}

func namesOf(kinds []*model.Kind) (names []string) {
	for _, k := range kinds {
		names = append(names, k.Name, k.Path)
	}
	return names
}

// Listed returns the kinds that can have records, which [Parse] should know.
func Listed(kinds []*model.Kind) []*model.Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k *model.Kind) bool { return !Recorded(k, model.Administrator()) })
}

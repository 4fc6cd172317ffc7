package proxytemplate

import (
	"slices"
)

// terminal are the filters that end a chain. Envoy accepts none behind them.
var terminal = []string{"envoy.filters.http.router", "envoy.filters.network.http_connection_manager", "envoy.filters.network.tcp_proxy"}

// named is an element of a list that modifications change.
type named interface {
	comparable
	whole
}

// change applies a change to a list of filters or virtual hosts. The list is not written to;
// its elements are.
func change[T named](c *Change, list []T, empty func() T) ([]T, error) {
	name := c.match().Name
	switch c.Operation {
	case "remove":
		return slices.DeleteFunc(slices.Clone(list), func(one T) bool { return name == "" || one.GetName() == name }), nil
	case "patch":
		return list, patchAll(c, list, name, empty)
	}
	value := empty()
	if err := parseWhole(c.Value, value); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(one T) bool { return one.GetName() == name })
	switch c.Operation {
	case "addFirst":
		at = 0
	case "add", "addLast":
		at = len(list)
	case "addAfter":
		if at >= 0 {
			at++
		}
	}
	if at > 0 && at == len(list) && slices.Contains(terminal, list[at-1].GetName()) {
		at--
	}
	if at < 0 { // nothing is there that it could stand beside
		return list, nil
	}
	return slices.Insert(slices.Clone(list), at, value), nil
}

func patchAll[T named](c *Change, list []T, name string, empty func() T) error {
	for _, one := range list {
		if name != "" && one.GetName() != name {
			continue
		}
		over := empty()
		if err := parse(c.Value, over); err != nil {
			return err
		}
		if err := merge(one.ProtoReflect(), over.ProtoReflect()); err != nil {
			return err
		}
	}
	return nil
}

package recall

import (
	"reflect"
	"time"
	"unsafe"

	"github.com/meshgate/meshgate/controlplane/model"
)

// What an answer occupies is estimated: every pointer of its rows is followed, and the values,
// the characters of texts and the entries of lists and maps are added up. What two answers
// share counts for both, so the estimate is rather too high. Kinds and time zones are left
// out, as all rows share them.

const (
	// perAnswer is an entry of the map of answers, with its part of the room that is free.
	perAnswer = 2 * int(unsafe.Sizeof(question{})+unsafe.Sizeof(answer{}))
	// perEntry is what a map has beside the key and the value of an entry.
	perEntry = 16
	// perValue is what the allocator adds to a value that has a place of its own.
	perValue = 16
	// maxDepth ends the walk of what refers to itself. Rows of the store do not.
	maxDepth = 32
)

// shared are the types that all rows share.
var shared = map[reflect.Type]bool{reflect.TypeFor[*model.Kind](): true, reflect.TypeFor[*time.Location](): true}

// occupied estimates the bytes that an answer occupies with its question.
func occupied(q *question, a *answer) int {
	n := perAnswer + beyond(reflect.ValueOf(q.query), 0) + len(a.list)*int(unsafe.Sizeof((*model.Resource)(nil)))
	for _, r := range a.list {
		n += beyond(reflect.ValueOf(r), 0)
	}
	if a.absent != nil {
		n += beyond(reflect.ValueOf(a.absent), 0)
	}
	return n
}

// beyond estimates what a value refers to, without the value itself.
func beyond(v reflect.Value, depth int) (n int) {
	if depth++; depth > maxDepth {
		return 0
	}
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || shared[v.Type()] {
			return 0
		}
		return perValue + int(v.Elem().Type().Size()) + beyond(v.Elem(), depth)
	case reflect.Struct:
		for i := range v.NumField() {
			n += beyond(v.Field(i), depth)
		}
	case reflect.Array, reflect.Slice:
		if v.Kind() == reflect.Slice {
			n = v.Cap() * int(v.Type().Elem().Size())
		}
		for i := 0; i < v.Len() && refers(v.Type().Elem()); i++ {
			n += beyond(v.Index(i), depth)
		}
	case reflect.Map:
		for entry := v.MapRange(); entry.Next(); {
			n += perEntry + int(v.Type().Key().Size()+v.Type().Elem().Size()) + beyond(entry.Key(), depth) + beyond(entry.Value(), depth)
		}
	default: // numbers refer to nothing, and nobody stores channels or functions
	}
	return n
}

// refers reports whether values of a type may refer to something.
func refers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Pointer, reflect.Interface, reflect.Struct, reflect.Array, reflect.Slice, reflect.Map:
		return true
	default:
		return false
	}
}

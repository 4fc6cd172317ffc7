package server

import (
	"strconv"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/xds/bootstrap"
)

// These constants bound what is kept of a node's metadata.
const (
	maxMetadata      = 64
	maxMetadataBytes = 4 << 10
	maxMetadataDepth = 4
)

// bare reports whether the metadata of a node says that it has no filter.
func bare(metadata *structpb.Struct) bool {
	return metadata.GetFields()[bootstrap.MetadataFilter].GetStringValue() == bootstrap.FilterNone
}

// versions flattens the metadata field "version" of a node to keys version.*. It ignores
// values other than structs, strings, numbers and booleans.
func versions(metadata *structpb.Struct) map[string]string {
	v := metadata.GetFields()["version"]
	if v == nil {
		return nil
	}
	f := flat{out: map[string]string{}}
	f.put("version", v, 0)
	return f.out
}

type flat struct {
	out  map[string]string
	size int
}

func (f *flat) put(key string, v *structpb.Value, depth int) {
	var text string
	switch x := v.GetKind().(type) {
	case *structpb.Value_StructValue:
		for k, inner := range x.StructValue.GetFields() {
			if depth < maxMetadataDepth && len(key)+len(k) < maxMetadataBytes {
				f.put(key+"."+k, inner, depth+1)
			}
		}
		return
	case *structpb.Value_StringValue:
		text = x.StringValue
	case *structpb.Value_BoolValue:
		text = strconv.FormatBool(x.BoolValue)
	case *structpb.Value_NumberValue:
		text = strconv.FormatFloat(x.NumberValue, 'g', -1, 64)
	default:
		return
	}
	if size := len(key) + len(text); depth > 0 && len(f.out) < maxMetadata && f.size+size <= maxMetadataBytes {
		f.out[key] = text
		f.size += size
	}
}

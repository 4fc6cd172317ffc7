package resource

import "google.golang.org/protobuf/encoding/protowire"

// Fields of DeltaDiscoveryResponse and Resource (envoy.service.discovery.v3).
const (
	deltaResources  protowire.Number = 2
	resourceVersion protowire.Number = 1
	resourceBody    protowire.Number = 2
	resourceName    protowire.Number = 3
)

// encode encodes the resource as every stream sends it, and makes Body a part of those bytes.
// So a resource that thousands of streams send is encoded only once.
func (r *Resource) encode() {
	anyLength := sizeOf(anyTypeURL, len(r.Type)) + sizeOf(anyValue, len(r.Body))
	length := sizeOf(resourceVersion, len(r.Version)) + protowire.SizeTag(resourceBody) + protowire.SizeBytes(anyLength) + sizeOf(resourceName, len(r.Name))
	b := make([]byte, 0, protowire.SizeTag(deltaResources)+protowire.SizeBytes(length))
	b = begin(b, deltaResources, length)
	b = text(b, resourceVersion, r.Version)
	b = begin(b, resourceBody, anyLength)
	start := len(b)
	b = text(b, anyTypeURL, string(r.Type))
	if len(r.Body) > 0 {
		b = begin(b, anyValue, len(r.Body))
		at := len(b)
		b = append(b, r.Body...)
		r.Body = b[at:len(b):len(b)]
	}
	r.Packed = b[start:len(b):len(b)]
	r.Delta = text(b, resourceName, r.Name)
}

// sizeOf returns the length of a field with so many bytes. An empty field is omitted.
func sizeOf(field protowire.Number, length int) int {
	if length == 0 {
		return 0
	}
	return protowire.SizeTag(field) + protowire.SizeBytes(length)
}

// begin starts a field of a known length.
func begin(b []byte, field protowire.Number, length int) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(length)) //nolint:gosec // a length
}

func text(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return append(begin(b, field, len(s)), s...)
}

package contract

import (
	"errors"
	"fmt"
	"slices"
)

// MaxScopes bounds the control planes that a gateway consists of, and so what one look-up
// reads in Redis.
const MaxScopes = 64

// Scopes says whose credentials a gateway accepts. The control plane tells it on the link,
// and filters keep it beside their trust.
type Scopes struct {
	// Of is the control plane, or group of such, that the gateway is part of.
	Of string `json:"of"`
	// Members are those that it consists of, in order: itself, unless it is a group.
	Members []string `json:"members"`
	// Since is the revision at which a group came to consist of these. What a record of
	// before says of other members ([Record].Own) is what was so then, so a gateway of the
	// group uses none. It is 0 if no such record can be left.
	Since uint64 `json:"since,omitempty"`
}

// Check says whether they can be used.
func (s *Scopes) Check() error {
	switch {
	case len(s.Members) > MaxScopes:
		return fmt.Errorf("a gateway consists of more than %d control planes", MaxScopes)
	case !slices.IsSorted(s.Members) || len(slices.Compact(slices.Clone(s.Members))) != len(s.Members):
		return errors.New("the control planes of a gateway are not in order")
	}
	return nil
}

// Has reports whether the credentials of a control plane are accepted.
func (s *Scopes) Has(plane string) bool {
	_, found := slices.BinarySearch(s.Members, plane)
	return found
}

// IsGroup reports whether the gateway is one of a group, whose members may clash. nil is
// nobody's.
func (s *Scopes) IsGroup() bool {
	return s != nil && (len(s.Members) != 1 || s.Members[0] != s.Of)
}

// Equal reports whether both are the same; nil is nobody's.
func (s *Scopes) Equal(o *Scopes) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Of == o.Of && s.Since == o.Since && slices.Equal(s.Members, o.Members)
}

// Continues reports whether what was judged by the members told still counts: they are the
// same, and nobody has left and come back in between.
func (s *Scopes) Continues(told *Scopes) bool {
	if s == nil || told == nil {
		return s == told
	}
	return s.Of == told.Of && s.Since <= told.Since && slices.Equal(s.Members, told.Members)
}

// Members is what stands under [RedisMembersKey]. A filter that nobody could tell of a
// member that has left finds it here: of what it was told only that counts which stands
// here, too. It cannot add any.
type Members struct {
	Version int `json:"v"`
	// Epoch is that of the records which may be used by it. One of another epoch may have
	// been written late, over a newer one.
	Epoch   Epoch    `json:"epoch"`
	Members []string `json:"members"`
	// Since is that of [Scopes].
	Since uint64 `json:"since,omitempty"`
}

// Marshal encodes members.
func (m Members) Marshal() []byte {
	m.Version = RecordVersion
	b, err := EncodeJSON(m)
	if err != nil { // numbers and texts always encode
		panic(err)
	}
	return b
}

// ParseMembers decodes members.
func ParseMembers(data []byte) (Members, error) {
	var m Members
	if err := decodeStrict(data, &m); err != nil {
		return Members{}, fmt.Errorf("decode members: %w", err)
	}
	if m.Version != RecordVersion {
		return Members{}, errors.New("not members of this version")
	}
	return m, nil
}

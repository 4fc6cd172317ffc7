package gateway

import "crypto/rand"

// RandomLength is the length of generated identifiers, secrets and tokens. 32 characters out
// of 62 hold 190 bits. Source: RFC 6749 section 10.10.
const RandomLength = 32

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// RandomString returns 32 characters [A-Za-z0-9], each equally likely: it drops bytes beyond
// the largest multiple of 62. It never fails, because crypto/rand ends the process rather
// than return bad randomness.
func RandomString() string {
	const fair = 256 - 256%len(alphabet)
	out := make([]byte, 0, RandomLength)
	var buf [RandomLength]byte
	for len(out) < RandomLength {
		_, _ = rand.Read(buf[:]) // documented never to return an error
		for _, b := range buf {
			if int(b) < fair && len(out) < RandomLength {
				out = append(out, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(out)
}

// generated is the generator of fields with random values.
func generated() (any, error) { return RandomString(), nil }

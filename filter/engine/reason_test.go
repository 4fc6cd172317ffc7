package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// saying is a first level that gives the same answer for every token.
type saying struct {
	packed []byte
	answer contract.Answer
}

func (s saying) Lookup(_ contract.Hash, dst []byte) (int, contract.Answer) {
	return copy(dst, s.packed), s.answer
}

// TestRefusalsSayWhyToTheLogAlone: a client that guesses gets the same answer no matter how
// close the guess came. The log gets the reason and, if it is known, the owner of the
// credential.
func TestRefusalsSayWhyToTheLogAlone(t *testing.T) {
	record := contract.Record{
		Version: 1, Service: "elsewhere", Credential: contract.Credential{ID: "c", ClientID: "app"},
		Consumer: &contract.Consumer{ID: "1", Username: "alice"},
	}
	key := record
	key.Key = true
	tokens := &contract.Chain{Service: "s", Plugins: []contract.Plugin{{ID: "o", OAuth2: &contract.OAuth2{Header: "authorization"}}}}
	keys := &contract.Chain{Service: "s", Plugins: []contract.Plugin{{ID: "k", KeyAuth: &contract.KeyAuth{Names: []string{"authorization"}, InHeader: true}}}}
	known := []string{"1", "alice", "app"}
	nobody := []string{"", "", ""}
	type row struct {
		reason contract.Reason
		says   saying
		who    []string
	}
	for name, c := range map[string]struct {
		chain *contract.Chain
		rows  []row
	}{
		"token": {tokens, []row{
			{contract.ReasonTokenUnknown, saying{nil, contract.Unknown}, nobody},
			{contract.ReasonTokenRevoked, saying{nil, contract.Revoked}, nobody},
			{contract.ReasonTokenExpired, saying{nil, contract.Expired}, nobody},
			{contract.ReasonTokenExpired, saying{record.Pack(nil), contract.Expired}, known},
			{contract.ReasonWrongService, saying{record.Pack(nil), contract.Found}, known},
			{contract.ReasonTokenUnknown, saying{key.Pack(nil), contract.Found}, nobody},
		}},
		"key": {keys, []row{
			{contract.ReasonKeyUnknown, saying{nil, contract.Unknown}, nobody},
			{contract.ReasonKeyRevoked, saying{nil, contract.Revoked}, nobody},
			{contract.ReasonKeyExpired, saying{key.Pack(nil), contract.Expired}, known},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var first *engine.Refusal
			for _, r := range c.rows {
				buf := make([]byte, engine.BufferSize)
				m := &message{Method: "GET", Path: "/", Headers: map[string][]string{"authorization": {"x"}}}
				v := drive(t, compile(c.chain), m, r.says, buf)
				if v.Action != engine.Refuse || v.Refusal.Reason != r.reason {
					t.Fatalf("%+v, want %s", v.Refusal, r.reason)
				}
				var who []string
				for _, h := range []contract.Header{contract.HeaderConsumerID, contract.HeaderConsumerUsername, contract.HeaderCredentialIdentifier} {
					s := v.Headers[h]
					who = append(who, string(buf[s.Off:s.Off+s.Len]))
				}
				if d := cmp.Diff(r.who, who); d != "" {
					t.Errorf("%s: who (-want +got):\n%s", r.reason, d)
				}
				if first == nil {
					first = v.Refusal
				}
				same := *v.Refusal
				same.Reason = first.Reason
				if d := cmp.Diff(*first, same, cmp.AllowUnexported(engine.Refusal{})); d != "" {
					t.Errorf("the answer to the client depends on %s:\n%s", r.reason, d)
				}
			}
		})
	}
}

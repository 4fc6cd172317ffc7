package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestNotesAreTheContracts: the front uses the words of the contract, which readers of logs
// rely on.
func TestNotesAreTheContracts(t *testing.T) {
	read := func(file string) string {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	notes := read("note.c")
	for _, word := range []string{
		string(contract.Refused), string(contract.Issued), string(contract.Undecided), string(contract.ReasonUndecided),
		contract.MetaDecision, contract.MetaReason, contract.MetaRoute, contract.MetaRouteID, contract.MetaService, contract.MetaServiceID,
		contract.MetaConsumer, contract.MetaConsumerID, contract.MetaApplication,
	} {
		if !strings.Contains(notes, `LITERAL("`+word+`")`) {
			t.Errorf("note.c does not say %q", word)
		}
	}
	if !strings.Contains(notes, `#define NAMESPACE "`+contract.MetadataNamespace+`"`) {
		t.Error("note.c has another namespace")
	}
	for _, m := range regexp.MustCompile(`FRONT_DETAILS "([a-z_]+)"`).FindAllStringSubmatch(read("apply.c"), -1) {
		if !slices.Contains(contract.Reasons, contract.Reason(m[1])) {
			t.Errorf("apply.c gives the reason %q, which is none", m[1])
		}
	}
	// note.c uses these indexes of the identity headers.
	if contract.HeaderConsumerID != 0 || contract.HeaderConsumerUsername != 2 || contract.HeaderCredentialIdentifier != 3 {
		t.Error("note.c takes identity headers for others")
	}
}

package fault

import (
	"errors"
	"fmt"
	"testing"
)

func TestBegun(t *testing.T) {
	cause := errors.New("port 8001 is in use")
	marked := fmt.Errorf("control plane: %w", NotBegun(cause))
	if Begun(marked) || !errors.Is(marked, cause) {
		t.Errorf("%v: the mark, or the cause, is lost on the way", marked)
	}
	if !Begun(cause) || !Begun(nil) || NotBegun(nil) != nil {
		t.Error("an error without the mark has one")
	}
}

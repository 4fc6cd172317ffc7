package delivery

import (
	"bytes"
	"compress/gzip"
	"context"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/outward"
)

const (
	// maxBatch bounds the events of one request.
	maxBatch = 200
	// maxBody bounds their bytes; one event is sent in any case.
	maxBody = 512 << 10
)

// encode writes events one in a line, as many as fit into a request, and returns their number.
func (e *Engine) encode(events []audit.Event, format string) (body []byte, n int) {
	var b bytes.Buffer
	for i := range events {
		line := e.line(&events[i], format)
		if n > 0 && b.Len()+len(line)+1 > maxBody {
			break
		}
		b.Write(line)
		b.WriteByte('\n')
		n++
	}
	return b.Bytes(), n
}

// line writes and signs an event, which is most of what its delivery costs.
func (e *Engine) line(event *audit.Event, format string) []byte {
	if format == cloud.FormatJSON {
		return e.Origin.JSON(event, e.Signer)
	}
	return e.Origin.CEF(event, e.Signer)
}

// attempt sends a body once.
func (e *Engine) attempt(ctx context.Context, to *cloud.Destination, body []byte) result {
	encoding := ""
	if e.Gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body) // into memory
		_ = z.Close()
		body, encoding = b.Bytes(), "gzip"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.Endpoint, bytes.NewReader(body))
	if err != nil {
		return result{failed: "the endpoint is not a valid URL", final: true}
	}
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Authorization", to.Authorization)
	req.Header.Set("User-Agent", userAgent)
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	client := e.Verifying
	if to.SkipSSLVerification {
		client = e.Trusting
	}
	status, header, err := client.Do(req)
	if err != nil {
		return result{failed: outward.Reason(err), final: outward.Untrusted(err), broken: outward.Broken(err)}
	}
	return result{status: status, header: header}
}

const userAgent = "meshgate-audit"

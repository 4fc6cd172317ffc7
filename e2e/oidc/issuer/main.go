// Issuer is an OpenID Connect issuer for tests: the provider of github.com/zitadel/oidc with
// clients and keys from files. It shares no code with what checks its tokens.
//
// The keys are files of one directory, PEM with PKCS #8. The last by name signs, and all are
// published. The directory is read for every request, so a test rotates keys by writing and
// removing files, and an issuer that is started again has its keys.
package main

import (
	"crypto/rand"
	"encoding/json"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/pkg/op"
)

func main() {
	url := flag.String("url", "", "what the issuer calls itself")
	listen := flag.String("listen", "", "address and port")
	certificate := flag.String("certificate", "", "file with its certificate")
	key := flag.String("key", "", "file with the key of its certificate")
	clients := flag.String("clients", "", "JSON file with a map of client ids to clients")
	keys := flag.String("keys", "", "directory of the keys that sign tokens")
	flag.Parse()
	if err := serve(*url, *listen, *certificate, *key, *clients, *keys); err != nil {
		slog.Error("the issuer cannot go on", "error", err)
		os.Exit(1)
	}
}

func serve(url, listen, certificate, key, clients, keys string) error {
	raw, err := os.ReadFile(clients)
	if err != nil {
		return err
	}
	s := &storage{keys: keyring(keys)}
	if err := json.Unmarshal(raw, &s.clients); err != nil {
		return err
	}
	for id, c := range s.clients {
		c.id = id
	}
	config := &op.Config{AuthMethodPost: true}
	if _, err := rand.Read(config.CryptoKey[:]); err != nil {
		return err
	}
	provider, err := op.NewProvider(config, s, op.StaticIssuer(url))
	if err != nil {
		return err
	}
	server := &http.Server{Addr: listen, Handler: provider, ReadHeaderTimeout: 10 * time.Second}
	return server.ListenAndServeTLS(certificate, key)
}

package api

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.yaml
var contract []byte

// Contract is the OpenAPI 3.1 document of the API.
func Contract() []byte { return append([]byte(nil), contract...) }

func serveContract(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(contract) // an error means that the client has left
}

module github.com/klinkio/klink

go 1.26.0

require google.golang.org/protobuf v1.36.12

require (
	github.com/getkin/kin-openapi v0.153.0 // indirect
	github.com/gorilla/websocket v1.5.3 // indirect
	github.com/prometheus/client_golang v1.25.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

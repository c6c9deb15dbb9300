package measure

import (
	"encoding/json"
	"os"

	"k8s.io/client-go/rest"
)

// Config reads the file that tells where a server is, whom to trust, and by
// what it knows its administrator. The client has no limit of its own.
func Config(file string) (*rest.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var endpoint struct {
		Server    string `json:"server"`
		Authority string `json:"authority"`
		Token     string `json:"token"`
	}
	if err := json.Unmarshal(text, &endpoint); err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            endpoint.Server,
		BearerToken:     endpoint.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte(endpoint.Authority)},
		QPS:             -1,
	}, nil
}

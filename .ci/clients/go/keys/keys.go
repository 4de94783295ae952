// Package keys makes keys as a program does that has no client for the management
// API: JSON to the admin listener.
package keys

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Create makes a key and returns its text. want is a CreateKeyRequest in JSON.
func Create(ctx context.Context, admin, want string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, admin+"/llmgw.api.v1.KeyService/CreateKey", strings.NewReader(want))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var made struct{ Secret, Message string }
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil {
		return "", err
	}
	if made.Secret == "" {
		return "", fmt.Errorf("no key was made of %s: %s %s", want, resp.Status, made.Message)
	}
	return made.Secret, nil
}

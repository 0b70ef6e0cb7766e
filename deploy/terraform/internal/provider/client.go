package provider

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const largestAnswer = 32 << 20

// client asks one Understudy. Each request has a deadline.
type client struct {
	url     string
	token   string
	program string
	timeout time.Duration
	http    *http.Client
	// Why no request is possible; empty if one is.
	missing string
}

// apiError is a refusal as a sentence. status is 0 if nothing answered.
type apiError struct {
	status  int
	message string
	fields  map[string][]string
}

func (e *apiError) Error() string { return e.message }

// statusOf is the HTTP status of a refusal; 0 for any other error.
func statusOf(err error) int {
	var refused *apiError
	if errors.As(err, &refused) {
		return refused.status
	}
	return 0
}

func newClient(address, token, program, caFile string, timeout time.Duration) (*client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		text, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read: %v", caFile, errors.Unwrap(err))
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM", caFile)
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	// The token goes to the configured address and nowhere else.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{
		url:     strings.TrimRight(address, "/"),
		token:   token,
		program: program,
		timeout: timeout,
		http:    &http.Client{Transport: transport, CheckRedirect: stay},
	}, nil
}

// ask sends a request to an address below /api/v1/ and returns status and body; nil without one.
func (c *client) ask(ctx context.Context, method, address string, body object) (int, object, error) {
	if c == nil || c.missing != "" {
		reason := "the provider is not configured"
		if c != nil {
			reason = c.missing
		}
		return 0, nil, &apiError{message: reason}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var sent io.Reader
	if body != nil {
		sent = bytes.NewReader(compact(body))
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+"/api/v1/"+address, sent)
	if err != nil {
		return 0, nil, &apiError{message: fmt.Sprintf("%s is no address: %v", c.url, err)}
	}
	request.Header.Set("Authorization", "Token "+c.token)
	request.Header.Set("User-Agent", c.program)
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return 0, nil, c.unreached(ctx, method, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, largestAnswer))
	if err != nil {
		return 0, nil, c.unreached(ctx, method, err)
	}
	if answer.StatusCode >= 300 {
		return answer.StatusCode, nil, c.refusal(answer, text)
	}
	if len(text) == 0 {
		return answer.StatusCode, nil, nil
	}
	found, err := decoded(text)
	if err != nil {
		return 0, nil, &apiError{message: fmt.Sprintf("%s did not answer with JSON. Is it the address of Understudy?", c.url)}
	}
	return answer.StatusCode, found, nil
}

func decoded(text []byte) (object, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var found object
	err := decoder.Decode(&found)
	return found, err
}

func (c *client) unreached(ctx context.Context, method string, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		words := fmt.Sprintf("%s did not answer within %s.", c.url, c.timeout)
		if method != http.MethodGet {
			words += " What was asked may still happen: plan again before you repeat it."
		}
		return &apiError{message: words}
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return &apiError{message: fmt.Sprintf("%s cannot be reached: %v. Check url, ca_file and the network.", c.url, err)}
}

// refusal is what the API says of an error.
func (c *client) refusal(answer *http.Response, text []byte) error {
	if place := answer.Header.Get("Location"); answer.StatusCode < 400 && place != "" {
		return &apiError{status: answer.StatusCode, message: fmt.Sprintf("%s redirects to %s. Set url to the address that answers itself.", c.url, place)}
	}
	var body struct {
		Error struct {
			Message string              `json:"message"`
			Fields  map[string][]string `json:"fields"`
		} `json:"error"`
	}
	if err := json.Unmarshal(text, &body); err != nil || body.Error.Message == "" {
		return &apiError{status: answer.StatusCode, message: fmt.Sprintf("%s answered %d without a reason. Is it the address of Understudy?", c.url, answer.StatusCode)}
	}
	return &apiError{status: answer.StatusCode, message: body.Error.Message, fields: body.Error.Fields}
}

// at is the address of one object.
func (k kind) at(place string) string {
	return strings.Replace(k.Address, "{}", url.PathEscape(place), 1)
}

// get is the object at a place; nil if there is none.
func (c *client) get(ctx context.Context, k kind, place string) (object, error) {
	_, found, err := c.ask(ctx, http.MethodGet, k.at(place), nil)
	if statusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	if err == nil && found == nil {
		err = &apiError{message: fmt.Sprintf("%s answered without a body", c.url)}
	}
	return found, err
}

// named are the objects of a collection with this name.
func (c *client) named(ctx context.Context, k kind, name string) ([]object, error) {
	var matching []object
	for page := 1; ; page++ {
		query := url.Values{"page": {fmt.Sprint(page)}, "page_size": {"500"}}
		if k.NamedBy == "name" {
			query.Set("search", name)
		}
		_, found, err := c.ask(ctx, http.MethodGet, k.Collection+"?"+query.Encode(), nil)
		if err != nil {
			return nil, err
		}
		rows, _ := found["results"].([]any)
		for _, row := range rows {
			if one, ok := row.(object); ok && one[k.NamedBy] == name {
				matching = append(matching, one)
			}
		}
		if found["next"] == nil {
			return matching, nil
		}
	}
}

package provider

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

func TestEachDefaultIsAValueOfItsType(t *testing.T) {
	for name, one := range kinds.Resources {
		for field, attribute := range one.Attributes {
			if attribute.Mode != defaulted {
				continue
			}
			value, err := attribute.fromAPI(attribute.Default)
			if err != nil || value.IsNull() {
				t.Errorf("%s.%s: %v, %v", name, field, value, err)
			}
		}
	}
}

func TestEachSchemaIsValid(t *testing.T) {
	for name, one := range kinds.Resources {
		made := objectResource{name: name, kind: one}
		var answer resource.SchemaResponse
		made.Schema(context.Background(), resource.SchemaRequest{}, &answer)
		if problems := answer.Schema.ValidateImplementation(context.Background()); problems.HasError() {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func TestValuesOfTheAPIComeBackAsTheyWere(t *testing.T) {
	rule := attribute{Type: "objects", Fields: map[string]attribute{"topics": {Type: "string"}, "where": {Type: "string"}, "routes": {Type: "strings"}, "provenance": {Type: "boolean"}}}
	for _, one := range []struct {
		of   attribute
		text string
	}{
		{attribute{Type: "number"}, `0.1`},
		{attribute{Type: "integer"}, `1000000000`},
		{attribute{Type: "boolean"}, `false`},
		{attribute{Type: "map"}, `{"a":"x > y","b":""}`},
		{attribute{Type: "strings"}, `["a","b"]`},
		{rule, `[{"provenance":true,"topics":"a"},{"routes":["b"],"topics":"c","where":"key < 'ü'"}]`},
	} {
		given, err := decoded([]byte(`{"it":` + one.text + `}`))
		if err != nil {
			t.Fatal(err)
		}
		value, err := one.of.fromAPI(given["it"])
		if err != nil {
			t.Fatalf("%s: %v", one.text, err)
		}
		back, err := toAPI(value)
		if err != nil || string(compact(back)) != one.text {
			t.Errorf("%s became %s, %v", one.text, compact(back), err)
		}
	}
}

func TestAnotherTypeIsAnErrorAndNoPanic(t *testing.T) {
	for _, kind := range []string{"string", "integer", "boolean", "map", "strings", "objects"} {
		for _, given := range []any{"x", true, json.Number("1"), object{"a": json.Number("1")}, []any{"a"}, []any{object{}}} {
			_, _ = attribute{Type: kind}.fromAPI(given)
		}
	}
	if _, err := (attribute{Type: "integer"}).fromAPI("x"); err == nil {
		t.Error("a text was taken for a number")
	}
}

func TestAListOfTextsHasNoOrder(t *testing.T) {
	if digest([]any{"a", "b"}) != digest([]any{"b", "a"}) || digest([]any{"a"}) == digest([]any{"b"}) {
		t.Error("the digest of a list of texts depends on its order, or not on its content")
	}
}

func TestARefusalIsReportedAtTheFieldOfARule(t *testing.T) {
	flow := kinds.Resources["flow"]
	made := objectResource{name: "flow", kind: flow}
	one, _ := flow.Attributes[rules].fromAPI([]any{object{"topics": "a"}, object{"topics": "b", "where": "x"}})
	values := map[string]tftypes.Value{rules: one, "properties": tftypes.NewValue(tftypes.Map{ElementType: tftypes.String}, map[string]tftypes.Value{"topics": tftypes.NewValue(tftypes.String, "a")})}
	for _, case_ := range []struct{ field, sentence, at string }{
		{"transforms", "rule 2, where: names 'x'", "transforms[1].where"},
		{"transforms", "transforms cannot be used: rule 9: x", "transforms"},
		{"topics", "is wrong", `properties["topics"]`},
		{"properties.topics", "is wrong", `properties["topics"]`},
		{"topicz", "is unknown", "properties"},
		{"target", "there is none", "target"},
	} {
		var problems diag.Diagnostics
		made.explain(&apiError{status: 400, fields: map[string][]string{case_.field: {case_.sentence}}}, values, &problems)
		found, ok := problems[0].(diag.DiagnosticWithPath)
		if !ok || found.Path().String() != case_.at || found.Detail() != case_.sentence {
			t.Errorf("%s: %v", case_.field, problems)
		}
	}
}

func TestARequestEndsAndSaysWhy(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"did not answer within 50ms. What was asked may still happen": func(_ http.ResponseWriter, asked *http.Request) {
			select {
			case <-asked.Context().Done():
			case <-time.After(5 * time.Second):
			}
		},
		"did not answer with JSON": func(answer http.ResponseWriter, _ *http.Request) { _, _ = answer.Write([]byte("<html>")) },
		"redirects to https://other": func(answer http.ResponseWriter, asked *http.Request) {
			http.Redirect(answer, asked, "https://other/", http.StatusFound)
		},
		"answered 502 without a reason": func(answer http.ResponseWriter, _ *http.Request) { answer.WriteHeader(502) },
		"too late": func(answer http.ResponseWriter, _ *http.Request) {
			answer.WriteHeader(409)
			_, _ = answer.Write([]byte(`{"error": {"message": "too late", "fields": {}}}`))
		},
	}
	for sentence, handler := range answers {
		server := httptest.NewServer(handler)
		made, err := newClient(server.URL+"/", "token", "test", "", 50*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = made.ask(context.Background(), http.MethodPost, "flows/", object{})
		if err == nil || !strings.Contains(err.Error(), sentence) || strings.Contains(err.Error(), "token") {
			t.Errorf("%q: %v", sentence, err)
		}
		server.CloseClientConnections()
		server.Close()
	}
}

package provider

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"sort"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// object is what the API takes and gives: values of encoding/json with json.Number.
type object = map[string]any

func (a attribute) terraformType() tftypes.Type {
	switch a.Type {
	case "boolean":
		return tftypes.Bool
	case "integer", "number":
		return tftypes.Number
	case "map":
		return tftypes.Map{ElementType: tftypes.String}
	case "strings":
		return tftypes.Set{ElementType: tftypes.String}
	case "object", "objects":
		fields := map[string]tftypes.Type{}
		for name, field := range a.Fields {
			fields[name] = field.terraformType()
		}
		one := tftypes.Object{AttributeTypes: fields}
		if a.Type == "object" {
			return one
		}
		return tftypes.List{ElementType: one}
	}
	return tftypes.String
}

// toAPI is a known value as the API takes it; an absent part of an object is left out.
func toAPI(value tftypes.Value) (any, error) {
	if value.IsNull() {
		return nil, nil
	}
	typed := value.Type()
	switch {
	case typed.Is(tftypes.String):
		var text string
		err := value.As(&text)
		return text, err
	case typed.Is(tftypes.Bool):
		var is bool
		err := value.As(&is)
		return is, err
	case typed.Is(tftypes.Number):
		number := new(big.Float)
		if err := value.As(&number); err != nil {
			return nil, err
		}
		return json.Number(number.Text('f', -1)), nil
	case typed.Is(tftypes.Map{}), typed.Is(tftypes.Object{}):
		var parts map[string]tftypes.Value
		if err := value.As(&parts); err != nil {
			return nil, err
		}
		found := object{}
		for name, part := range parts {
			one, err := toAPI(part)
			if err != nil {
				return nil, err
			}
			if one != nil {
				found[name] = one
			}
		}
		return found, nil
	}
	var parts []tftypes.Value
	if err := value.As(&parts); err != nil {
		return nil, err
	}
	found := make([]any, len(parts))
	for at, part := range parts {
		one, err := toAPI(part)
		if err != nil {
			return nil, err
		}
		found[at] = one
	}
	return found, nil
}

// fromAPI is a value of the API as Terraform has it. An error names what the API gave instead.
func (a attribute) fromAPI(given any) (tftypes.Value, error) {
	typed := a.terraformType()
	if given == nil {
		return tftypes.NewValue(typed, nil), nil
	}
	switch value := given.(type) {
	case string:
		if typed.Is(tftypes.String) {
			return tftypes.NewValue(typed, value), nil
		}
	case bool:
		if typed.Is(tftypes.Bool) {
			return tftypes.NewValue(typed, value), nil
		}
	case json.Number:
		if typed.Is(tftypes.String) {
			return tftypes.NewValue(typed, value.String()), nil
		}
		if number, _, err := big.ParseFloat(value.String(), 10, 512, big.ToNearestEven); err == nil && typed.Is(tftypes.Number) {
			return tftypes.NewValue(typed, number), nil
		}
	case object:
		return a.fromObject(typed, value)
	case []any:
		element := attribute{Type: "object", Fields: a.Fields}
		if a.Type == "strings" {
			element = attribute{Type: "string"}
		}
		parts := make([]tftypes.Value, len(value))
		for at, part := range value {
			one, err := element.fromAPI(part)
			if err != nil {
				return typed0(typed), err
			}
			parts[at] = one
		}
		if a.Type == "strings" || a.Type == "objects" {
			return tftypes.NewValue(typed, parts), nil
		}
	}
	return typed0(typed), fmt.Errorf("the server gave a %T where a %s belongs", given, a.Type)
}

func (a attribute) fromObject(typed tftypes.Type, given object) (tftypes.Value, error) {
	parts := map[string]tftypes.Value{}
	names := sortedNames(given)
	part := func(string) attribute { return attribute{Type: "string"} }
	switch a.Type {
	case "object":
		names = sortedNames(a.Fields)
		part = func(name string) attribute { return a.Fields[name] }
	case "map":
	default:
		return typed0(typed), fmt.Errorf("the server gave an object where a %s belongs", a.Type)
	}
	for _, name := range names {
		one, err := part(name).fromAPI(given[name])
		if err != nil {
			return typed0(typed), err
		}
		parts[name] = one
	}
	return tftypes.NewValue(typed, parts), nil
}

func typed0(typed tftypes.Type) tftypes.Value { return tftypes.NewValue(typed, nil) }

// digest identifies a value of the API. The state keeps it to see later whether somebody changed
// the value; it is no secret, unlike the value. Lists of texts have no order.
func digest(value any) string {
	if list, ok := value.([]any); ok {
		texts := make([]string, 0, len(list))
		for _, one := range list {
			if text, ok := one.(string); ok {
				texts = append(texts, text)
			}
		}
		if len(texts) == len(list) {
			sort.Strings(texts)
			value = texts
		}
	}
	sum := sha256.Sum256(compact(value))
	return hex.EncodeToString(sum[:])
}

// compact is JSON in one line, with `<` and `>` as they are.
func compact(value any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // every value was decoded from JSON or comes from toAPI
	}
	return bytes.TrimSpace(text.Bytes())
}

package provider

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// rules is the property of a flow that the attribute of this name is on the server.
const rules = "transforms"

// changed are the attributes that a request has to send.
func (r *objectResource) changed(plan, prior map[string]tftypes.Value) map[string]bool {
	found := map[string]bool{}
	for name, one := range r.kind.Attributes {
		if !one.Local && one.Mode != computed && !plan[name].Equal(prior[name]) {
			found[name] = true
		}
	}
	return found
}

// body is the request that writes these attributes; now is the object before it, nil for a new one.
func (r *objectResource) body(plan map[string]tftypes.Value, names map[string]bool, now object) (object, error) {
	found := object{}
	for name := range names {
		value, err := toAPI(plan[name])
		if err != nil {
			return nil, err
		}
		found[name] = value
	}
	if !r.kind.isFlow() || !(names["properties"] || names[rules]) {
		return found, nil
	}
	// The server replaces properties as a whole.
	properties := object{}
	given, err := toAPI(plan["properties"])
	if err != nil {
		return nil, err
	}
	if known, ok := given.(object); ok {
		properties = known
	}
	text := ""
	if names[rules] {
		if list, _ := found[rules].([]any); len(list) > 0 {
			text = string(compact(list))
		}
	} else {
		// As they are stored, with the digest of each module that they call.
		text = rulesText(now)
	}
	if text != "" {
		properties[rules] = text
	}
	delete(found, rules)
	found["properties"] = properties
	return found, nil
}

func rulesText(of object) string {
	properties, _ := of["properties"].(object)
	text, _ := properties[rules].(string)
	return text
}

// valueOf is what the server has for an attribute, nil for null.
func (r *objectResource) valueOf(name string, of object) any {
	if !r.kind.isFlow() {
		return of[name]
	}
	switch name {
	case "properties":
		properties := object{}
		known, _ := of[name].(object)
		for key, value := range known {
			if key != rules {
				properties[key] = value
			}
		}
		return properties
	case rules:
		return withoutDefaults(of[rules])
	}
	return of[name]
}

// digest identifies what the server has for an attribute.
func (r *objectResource) digest(name string, of object) string {
	if r.kind.isFlow() && name == rules {
		return digest(rulesText(of))
	}
	return digest(r.valueOf(name, of))
}

// withoutDefaults are the rules as a person writes them; nil without rules.
func withoutDefaults(given any) any {
	list, _ := given.([]any)
	if len(list) == 0 {
		return nil
	}
	found := make([]any, len(list))
	for at, one := range list {
		rule := object{}
		fields, _ := one.(object)
		for name, value := range fields {
			switch string(compact(value)) {
			case "null", "false", "[]", "{}", `"stop"`:
			default:
				rule[name] = value
			}
		}
		found[at] = rule
	}
	return found
}

// placeOf is the object's place in an address.
func (r *objectResource) placeOf(of object) string { return fmt.Sprint(of[r.kind.Key]) }

// isAbsent: a part of a flow that has no value.
func (r *objectResource) isAbsent(found object) bool {
	if !r.kind.IsPartOfFlow {
		return false
	}
	for name, one := range r.kind.Attributes {
		if one.Mode != required && found[name] != nil && found[name] != "" {
			return false
		}
	}
	return true
}

// hidesSecrets: the server gives sensitive fields only to admins, and this token has not that role.
func (r *objectResource) hidesSecrets(found object) bool {
	for name, one := range r.kind.Attributes {
		if one.Sensitive && one.Mode == required && found[name] == "" {
			return true
		}
	}
	return false
}

// flowName is the name of the flow with this id.
func (r *objectResource) flowName(ctx context.Context, id any) (any, error) {
	if id == nil {
		return nil, nil
	}
	found, err := r.client.get(ctx, kinds.Resources["flow"], fmt.Sprint(id))
	if err != nil {
		return nil, err
	}
	if found == nil {
		return fmt.Sprint(id), nil
	}
	return found["name"], nil
}

// isSameFlow: one is the name and the other the id of the same flow.
func (r *objectResource) isSameFlow(ctx context.Context, one, other tftypes.Value) bool {
	if r.client == nil || textOf(one) == "" || textOf(other) == "" {
		return false
	}
	found, err := r.client.get(ctx, kinds.Resources["flow"], textOf(one))
	return err == nil && found != nil && (found["name"] == textOf(other) || fmt.Sprint(found["id"]) == textOf(other))
}

// label names the object in sentences.
func (r *objectResource) label(values map[string]tftypes.Value) string {
	if r.kind.isFlow() {
		return textOf(values["source"]) + "->" + textOf(values["target"])
	}
	for _, name := range []string{"alias", "name", "flow"} {
		if text := textOf(values[name]); text != "" {
			return text
		}
	}
	return textOf(values["id"])
}

// withImport adds how to manage an object that exists already.
func (r *objectResource) withImport(ctx context.Context, err error, plan map[string]tftypes.Value) error {
	refused, ok := err.(*apiError)
	if !ok || (refused.status != http.StatusBadRequest && refused.status != http.StatusConflict) || r.kind.Kind == "Drill" {
		return err
	}
	name := r.label(plan)
	exists := false
	if r.kind.Key == "id" && !r.kind.isFlow() {
		rows, _ := r.client.named(ctx, r.kind, name)
		exists = len(rows) > 0
	} else if found, _ := r.client.get(ctx, r.kind, name); found != nil {
		exists = !r.isAbsent(found)
	}
	if !exists {
		return err
	}
	words := fmt.Sprintf(" To manage the one that exists: terraform import understudy_%s.NAME '%s'.", r.name, name)
	fields := map[string][]string{}
	for field, sentences := range refused.fields {
		fields[field] = []string{strings.Join(sentences, " ") + words}
	}
	return &apiError{status: refused.status, message: refused.message + words, fields: fields}
}

var ruleField = regexp.MustCompile(`\brule ([1-9][0-9]{0,3})(?:, ([a-z_]+))?:`)

// explain reports a refusal at the attributes that it is about.
func (r *objectResource) explain(err error, values map[string]tftypes.Value, problems *diag.Diagnostics) {
	refused, ok := err.(*apiError)
	summary := fmt.Sprintf("%s %s is refused", r.kind.Kind, r.label(values))
	if ok && refused.status == 0 {
		summary = fmt.Sprintf("%s %s was not written", r.kind.Kind, r.label(values))
	}
	if !ok || len(refused.fields) == 0 {
		problems.AddError(summary, err.Error())
		return
	}
	for _, field := range sortedNames(refused.fields) {
		sentence := strings.Join(refused.fields[field], " ")
		if at, ok := r.pathOf(field, sentence, values); ok {
			problems.AddAttributeError(at, summary, sentence)
		} else {
			problems.AddError(summary, field+": "+sentence)
		}
	}
}

// pathOf is the attribute that a field of an error is about.
func (r *objectResource) pathOf(field, sentence string, values map[string]tftypes.Value) (path.Path, bool) {
	first, rest, _ := strings.Cut(field, ".")
	if r.kind.isFlow() {
		if rest == rules || first == rules {
			return ruleAt(sentence, values), true
		}
		if _, known := r.kind.Attributes[first]; !known && first != "non_field_errors" {
			return propertyAt(field, values), true
		}
		if first == "properties" && rest != "" {
			return propertyAt(rest, values), true
		}
	}
	_, known := r.kind.Attributes[first]
	return path.Root(first), known
}

// propertyAt is the property if the configuration has it, otherwise all of them.
func propertyAt(key string, values map[string]tftypes.Value) path.Path {
	at := path.Root("properties")
	var given map[string]tftypes.Value
	if values["properties"].IsKnown() && values["properties"].As(&given) == nil {
		if _, has := given[key]; has {
			return at.AtMapKey(key)
		}
	}
	return at
}

// ruleAt is the rule, and its field, that the sentence names.
func ruleAt(sentence string, values map[string]tftypes.Value) path.Path {
	at := path.Root(rules)
	named := ruleField.FindStringSubmatch(sentence)
	var given []tftypes.Value
	if named == nil || !values[rules].IsKnown() || values[rules].As(&given) != nil {
		return at
	}
	number, err := strconv.Atoi(named[1])
	if err != nil || number > len(given) {
		return at
	}
	at = at.AtListIndex(number - 1)
	if _, has := kinds.Resources["flow"].Attributes[rules].Fields[named[2]]; has {
		return at.AtName(named[2])
	}
	return at
}

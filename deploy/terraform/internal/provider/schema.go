package provider

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"

	dataschema "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// resourceAttribute is an attribute as a resource has it.
func (a attribute) resourceAttribute() schema.Attribute {
	is, may, set := a.Mode == required, a.Mode != required && a.Mode != computed, a.Mode != required && a.Mode != nullable
	about := a.described()
	switch a.Type {
	case "boolean":
		return schema.BoolAttribute{Required: is, Optional: may, Computed: set, Sensitive: a.Sensitive, Description: about}
	case "integer":
		return schema.Int64Attribute{Required: is, Optional: may, Computed: set, Sensitive: a.Sensitive, Description: about, Validators: []validator.Int64{limits{a}}}
	case "number":
		return schema.Float64Attribute{Required: is, Optional: may, Computed: set, Sensitive: a.Sensitive, Description: about, Validators: []validator.Float64{limits{a}}}
	case "map":
		return schema.MapAttribute{ElementType: types.StringType, Required: is, Optional: may, Computed: set, Sensitive: a.Sensitive, Description: about}
	case "strings":
		return schema.SetAttribute{ElementType: types.StringType, Required: is, Optional: may, Computed: set, Sensitive: a.Sensitive, Description: about}
	case "objects":
		fields := map[string]schema.Attribute{}
		for name, field := range a.Fields {
			fields[name] = field.resourceAttribute()
		}
		return schema.ListNestedAttribute{Required: is, Optional: may, Computed: set, Sensitive: a.Sensitive, Description: about, NestedObject: schema.NestedAttributeObject{Attributes: fields}}
	}
	return schema.StringAttribute{Required: is, Optional: may, Computed: set, Sensitive: a.Sensitive, Description: about, Validators: []validator.String{limits{a}}}
}

// dataAttribute is an attribute as a data source has it: read only.
func (a attribute) dataAttribute() dataschema.Attribute {
	switch a.Type {
	case "boolean":
		return dataschema.BoolAttribute{Computed: true, Description: a.About}
	case "integer":
		return dataschema.Int64Attribute{Computed: true, Description: a.About}
	case "number":
		return dataschema.Float64Attribute{Computed: true, Description: a.About}
	case "map":
		return dataschema.MapAttribute{ElementType: types.StringType, Computed: true, Description: a.About}
	case "strings":
		return dataschema.SetAttribute{ElementType: types.StringType, Computed: true, Description: a.About}
	case "object", "objects":
		fields := map[string]dataschema.Attribute{}
		for name, field := range a.Fields {
			fields[name] = field.dataAttribute()
		}
		if a.Type == "object" {
			return dataschema.SingleNestedAttribute{Computed: true, Description: a.About, Attributes: fields}
		}
		return dataschema.ListNestedAttribute{Computed: true, Description: a.About, NestedObject: dataschema.NestedAttributeObject{Attributes: fields}}
	}
	return dataschema.StringAttribute{Computed: true, Description: a.About}
}

// described is what the documentation of the attribute says.
func (a attribute) described() string {
	parts := []string{}
	if a.About != "" {
		parts = append(parts, a.About)
	}
	if words := quoted(a.OneOf); words != "" {
		parts = append(parts, "One of "+words+".")
	}
	if a.IsFlow {
		parts = append(parts, "The name or the id of a flow.")
	}
	switch a.Mode {
	case defaulted:
		parts = append(parts, fmt.Sprintf("Default: %s.", compact(a.Default)))
	case kept:
		parts = append(parts, "Left out, it keeps the value that the server has.")
	}
	if a.Replaces {
		parts = append(parts, "Another value replaces the object.")
	}
	return strings.Join(parts, " ")
}

func quoted(words []string) string {
	found := []string{}
	for _, word := range words {
		if word != "" {
			found = append(found, `"`+word+`"`)
		}
	}
	return strings.Join(found, ", ")
}

// limits are those of the OpenAPI document, so that a plan says what the API would refuse.
type limits struct{ of attribute }

func (l limits) Description(context.Context) string         { return "" }
func (l limits) MarkdownDescription(context.Context) string { return "" }

func (l limits) ValidateString(_ context.Context, asked validator.StringRequest, answer *validator.StringResponse) {
	if asked.ConfigValue.IsNull() || asked.ConfigValue.IsUnknown() {
		return
	}
	given := asked.ConfigValue.ValueString()
	if l.of.Longest != nil && utf8.RuneCountInString(given) > *l.of.Longest {
		answer.Diagnostics.AddAttributeError(asked.Path, "Too long", fmt.Sprintf("%s has %d characters; the most are %d.", asked.Path, utf8.RuneCountInString(given), *l.of.Longest))
	}
	if len(l.of.OneOf) == 0 {
		return
	}
	for _, word := range l.of.OneOf {
		if word == given {
			return
		}
	}
	answer.Diagnostics.AddAttributeError(asked.Path, "Unknown word", fmt.Sprintf("%s is %q, which is not one of %s.", asked.Path, given, quoted(l.of.OneOf)))
}

func (l limits) ValidateInt64(_ context.Context, asked validator.Int64Request, answer *validator.Int64Response) {
	if !asked.ConfigValue.IsNull() && !asked.ConfigValue.IsUnknown() {
		if words := l.outside(float64(asked.ConfigValue.ValueInt64())); words != "" {
			answer.Diagnostics.AddAttributeError(asked.Path, "Outside the limits", asked.Path.String()+" "+words)
		}
	}
}

func (l limits) ValidateFloat64(_ context.Context, asked validator.Float64Request, answer *validator.Float64Response) {
	if !asked.ConfigValue.IsNull() && !asked.ConfigValue.IsUnknown() {
		if words := l.outside(asked.ConfigValue.ValueFloat64()); words != "" {
			answer.Diagnostics.AddAttributeError(asked.Path, "Outside the limits", asked.Path.String()+" "+words)
		}
	}
}

// outside says which limit a number exceeds; empty if none.
func (l limits) outside(given float64) string {
	switch {
	case l.of.Least != nil && given < *l.of.Least:
		return fmt.Sprintf("is %s; the least is %s.", plain(given), plain(*l.of.Least))
	case l.of.Most != nil && given > *l.of.Most:
		return fmt.Sprintf("is %s; the most is %s.", plain(given), plain(*l.of.Most))
	}
	return ""
}

func plain(number float64) string { return new(big.Float).SetFloat64(number).Text('f', -1) }

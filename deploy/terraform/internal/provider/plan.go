package provider

import (
	"context"
	"fmt"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// ModifyPlan fills in what the configuration leaves out, says what replaces the object, and of a
// changed flow what the server would refuse or restart.
func (r *objectResource) ModifyPlan(ctx context.Context, asked resource.ModifyPlanRequest, answer *resource.ModifyPlanResponse) {
	if asked.Plan.Raw.IsNull() {
		return
	}
	given, plan, prior := fieldsOf(asked.Config.Raw), fieldsOf(asked.Plan.Raw), fieldsOf(asked.State.Raw)
	isNew := asked.State.Raw.IsNull()
	for name, one := range r.attributes() {
		if !given[name].IsNull() {
			plan[name] = given[name]
		} else if one.Mode == defaulted {
			value, err := one.fromAPI(one.Default)
			if err != nil {
				answer.Diagnostics.AddAttributeError(path.Root(name), "Unusable default", err.Error()+".")
			}
			plan[name] = value
		} else if one.Mode != nullable && isNew {
			plan[name] = tftypes.NewValue(one.terraformType(), tftypes.UnknownValue)
		} else if one.Mode != nullable {
			plan[name] = prior[name]
		}
		isOther := one.Replaces && !isNew && !plan[name].Equal(prior[name])
		if isOther && !(one.IsFlow && r.isSameFlow(ctx, plan[name], prior[name])) {
			answer.RequiresReplace = append(answer.RequiresReplace, path.Root(name))
		}
	}
	answer.Plan.Raw = tftypes.NewValue(asked.Plan.Raw.Type(), plan)
	if r.kind.isFlow() && !isNew && len(answer.RequiresReplace) == 0 && !answer.Diagnostics.HasError() {
		r.preview(ctx, plan, prior, answer)
	}
}

// preview asks the server what it says of a change, and reports it with the plan.
func (r *objectResource) preview(ctx context.Context, plan, prior map[string]tftypes.Value, answer *resource.ModifyPlanResponse) {
	changed := r.changed(plan, prior)
	delete(changed, "desired_state")
	delete(changed, "labels")
	if len(changed) == 0 || r.client == nil || r.client.missing != "" {
		return
	}
	for name := range changed {
		if !plan[name].IsFullyKnown() {
			return
		}
	}
	place := textOf(prior["id"])
	now, err := r.client.get(ctx, r.kind, place)
	if err != nil || now == nil {
		return
	}
	body, err := r.body(plan, changed, now)
	if err == nil {
		_, said, refused := r.client.ask(ctx, http.MethodPost, r.kind.at(place)+"preview/", body)
		if err = refused; err == nil {
			for _, words := range []string{"restarts", "warnings"} {
				sentences, _ := said[words].([]any)
				for _, sentence := range sentences {
					answer.Diagnostics.AddWarning("Effect of the change", fmt.Sprint(sentence))
				}
			}
			return
		}
	}
	// A token that only reads can plan.
	if status := statusOf(err); status == http.StatusBadRequest || status == http.StatusConflict {
		r.explain(err, plan, &answer.Diagnostics)
	}
}

// ValidateConfig finds what neither Terraform nor the schema can know.
func (r *objectResource) ValidateConfig(_ context.Context, asked resource.ValidateConfigRequest, answer *resource.ValidateConfigResponse) {
	given := fieldsOf(asked.Config.Raw)
	if r.kind.isFlow() && given["properties"].IsKnown() && !given["properties"].IsNull() {
		var properties map[string]tftypes.Value
		if given["properties"].As(&properties) == nil {
			if _, has := properties["transforms"]; has {
				answer.Diagnostics.AddAttributeError(path.Root("properties").AtMapKey("transforms"), "Rules are an attribute", "Move the rules from properties to the attribute transforms of the flow; jsondecode() reads the text.")
			}
		}
	}
	if !r.kind.IsPartOfFlow {
		return
	}
	names := []string{}
	for _, name := range sortedNames(r.kind.Attributes) {
		if one := r.kind.Attributes[name]; one.Mode == required {
			continue
		}
		if !given[name].IsNull() {
			return
		}
		names = append(names, name)
	}
	answer.Diagnostics.AddError("Nothing is set", fmt.Sprintf("Set at least one of %s: without any, a flow has no %s.", quoted(names), r.name))
}

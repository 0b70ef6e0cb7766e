package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

const (
	digestsKey = "digests"
	// How long a flow may take to stop before it is deleted.
	stopWithin = 3 * time.Minute
	stopPause  = time.Second
)

var idAttribute = attribute{Type: "string", Mode: computed, About: "The place of the object in the API."}

// objectResource is one kind of objects. The state has each value as the configuration has it, and
// beside it a digest of what the server has: only another digest is a change on the server.
type objectResource struct {
	name   string
	kind   kind
	client *client
}

func (r *objectResource) attributes() map[string]attribute {
	found := map[string]attribute{"id": idAttribute}
	for name, one := range r.kind.Attributes {
		found[name] = one
	}
	return found
}

func (r *objectResource) Metadata(_ context.Context, asked resource.MetadataRequest, answer *resource.MetadataResponse) {
	answer.TypeName = asked.ProviderTypeName + "_" + r.name
}

func (r *objectResource) Schema(_ context.Context, _ resource.SchemaRequest, answer *resource.SchemaResponse) {
	attributes := map[string]schema.Attribute{}
	for name, one := range r.attributes() {
		attributes[name] = one.resourceAttribute()
	}
	answer.Schema = schema.Schema{Description: r.kind.About, Attributes: attributes}
}

func (r *objectResource) Configure(_ context.Context, asked resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.client, _ = asked.ProviderData.(*client)
}

func (r *objectResource) Create(ctx context.Context, asked resource.CreateRequest, answer *resource.CreateResponse) {
	plan := fieldsOf(asked.Plan.Raw)
	all := map[string]bool{}
	for name, one := range r.kind.Attributes {
		isGiven := plan[name].IsFullyKnown() && !plan[name].IsNull()
		if isGiven && !one.Local && one.Mode != computed && !(r.kind.IsPartOfFlow && one.Mode == required) {
			all[name] = true
		}
	}
	body, err := r.body(plan, all, nil)
	method, address := http.MethodPost, r.kind.Collection
	if err == nil && r.kind.IsPartOfFlow {
		method, address = http.MethodPatch, r.kind.at(textOf(plan["flow"]))
		if known, failed := r.client.get(ctx, r.kind, textOf(plan["flow"])); failed == nil && known != nil && !r.isAbsent(known) {
			err = &apiError{status: http.StatusConflict, message: fmt.Sprintf("%s has %s already.", textOf(plan["flow"]), r.name)}
		}
	}
	var made object
	if err == nil {
		_, made, err = r.client.ask(ctx, method, address, body)
	}
	if err != nil {
		r.explain(r.withImport(ctx, err, plan), plan, &answer.Diagnostics)
		return
	}
	digests := map[string]string{}
	for name, one := range r.kind.Attributes {
		if !one.Local {
			digests[name] = r.digest(name, made)
		}
	}
	answer.State.Raw = r.stateAfter(ctx, asked.Plan.Raw, plan, made, &answer.Diagnostics)
	answer.Diagnostics.Append(answer.Private.SetKey(ctx, digestsKey, compact(digests))...)
}

func (r *objectResource) Read(ctx context.Context, asked resource.ReadRequest, answer *resource.ReadResponse) {
	state := fieldsOf(asked.State.Raw)
	found, err := r.client.get(ctx, r.kind, textOf(state["id"]))
	if err != nil {
		answer.Diagnostics.AddError(fmt.Sprintf("%s %s was not read", r.kind.Kind, r.label(state)), err.Error())
		return
	}
	if found == nil || r.isAbsent(found) {
		answer.State.RemoveResource(ctx)
		return
	}
	digests := digestsOf(ctx, asked.Private, &answer.Diagnostics)
	isHidden := r.hidesSecrets(found)
	for name, one := range r.kind.Attributes {
		if one.Local {
			if state[name].IsNull() {
				state[name], _ = one.fromAPI(one.Default)
			}
			continue
		}
		now := r.digest(name, found)
		if digests[name] == now || (one.Sensitive && isHidden) {
			continue
		}
		digests[name] = now
		value := r.valueOf(name, found)
		if one.Sensitive && (one.Default == nil || digest(value) != digest(one.Default)) {
			// Somebody changed it. The plan shows that; the state does not get the value.
			value = nil
		}
		if one.IsFlow {
			value, err = r.flowName(ctx, value)
		}
		if err == nil {
			state[name], err = one.fromAPI(value)
		}
		if err != nil {
			answer.Diagnostics.AddAttributeError(path.Root(name), "Unexpected answer", err.Error()+".")
			return
		}
	}
	state["id"] = tftypes.NewValue(tftypes.String, r.placeOf(found))
	answer.State.Raw = tftypes.NewValue(asked.State.Raw.Type(), state)
	answer.Diagnostics.Append(answer.Private.SetKey(ctx, digestsKey, compact(digests))...)
}

func (r *objectResource) Update(ctx context.Context, asked resource.UpdateRequest, answer *resource.UpdateResponse) {
	plan, prior := fieldsOf(asked.Plan.Raw), fieldsOf(asked.State.Raw)
	answer.State.Raw = asked.Plan.Raw
	changed := r.changed(plan, prior)
	if r.kind.IsPartOfFlow {
		// The same flow by another name: it is in the address.
		delete(changed, "flow")
	}
	if len(changed) == 0 {
		return
	}
	answer.State.Raw = asked.State.Raw
	place := textOf(prior["id"])
	now, err := r.client.get(ctx, r.kind, place)
	if err == nil && now == nil {
		err = &apiError{message: fmt.Sprintf("%s was deleted after the plan. Plan again.", r.label(prior))}
	}
	digests := digestsOf(ctx, asked.Private, &answer.Diagnostics)
	if err == nil {
		err = r.moved(changed, digests, now)
	}
	var body, after object
	if err == nil {
		body, err = r.body(plan, changed, now)
	}
	if err == nil {
		_, after, err = r.client.ask(ctx, http.MethodPatch, r.kind.at(place), body)
	}
	if err != nil {
		r.explain(err, plan, &answer.Diagnostics)
		return
	}
	// Of the other fields the state says what it said: what changed there is seen by the next plan.
	for name := range changed {
		digests[name] = r.digest(name, after)
	}
	answer.State.Raw = r.stateAfter(ctx, asked.Plan.Raw, plan, after, &answer.Diagnostics)
	answer.Diagnostics.Append(answer.Private.SetKey(ctx, digestsKey, compact(digests))...)
}

// moved says which of the fields has changed on the server since the plan read it.
func (r *objectResource) moved(changed map[string]bool, digests map[string]string, now object) error {
	fields := map[string][]string{}
	for name := range changed {
		if digests[name] != "" && digests[name] != r.digest(name, now) && !(r.kind.Attributes[name].Sensitive && r.hidesSecrets(now)) {
			fields[name] = []string{"Somebody changed it on the server after the plan, so nothing was written. Plan again."}
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return &apiError{message: "It changed after the plan. Plan again.", fields: fields}
}

func (r *objectResource) Delete(ctx context.Context, asked resource.DeleteRequest, answer *resource.DeleteResponse) {
	state := fieldsOf(asked.State.Raw)
	address := r.kind.at(textOf(state["id"]))
	var stops bool
	if r.kind.isFlow() && !state["stop_on_destroy"].IsNull() {
		_ = state["stop_on_destroy"].As(&stops)
	}
	var err error
	if stops {
		reason := object{"reason": "Terraform deletes the flow (stop_on_destroy)."}
		_, _, err = r.client.ask(ctx, http.MethodPost, address+"stop/", reason)
	}
	status := 0
	if err == nil {
		status, _, err = r.client.ask(ctx, http.MethodDelete, address, nil)
	}
	// An interrupted Terraform ends the wait, and the flow is not deleted.
	until := time.Now().Add(stopWithin)
	for stops && statusOf(err) == http.StatusConflict && r.isStopping(ctx, state) && time.Now().Before(until) {
		select {
		case <-ctx.Done():
		case <-time.After(stopPause):
		}
		status, _, err = r.client.ask(ctx, http.MethodDelete, address, nil)
	}
	if err != nil && statusOf(err) != http.StatusNotFound {
		words := err.Error()
		if r.kind.isFlow() && !stops && statusOf(err) == http.StatusConflict {
			words += " Or set stop_on_destroy = true and apply that first."
		}
		answer.Diagnostics.AddError(fmt.Sprintf("%s %s was not deleted", r.kind.Kind, r.label(state)), words)
	} else if status == http.StatusAccepted {
		answer.Diagnostics.AddWarning("It is deleted later", fmt.Sprintf("%s %s is deleted when its process has ended.", r.kind.Kind, r.label(state)))
	}
}

// isStopping: a job of the flow has not ended yet.
func (r *objectResource) isStopping(ctx context.Context, state map[string]tftypes.Value) bool {
	found, err := r.client.get(ctx, r.kind, textOf(state["id"]))
	return err == nil && found != nil && found["desired_state"] == "stopped" && found["observed_state"] != "stopped"
}

func (r *objectResource) ImportState(ctx context.Context, asked resource.ImportStateRequest, answer *resource.ImportStateResponse) {
	place := asked.ID
	isNumber := strings.Trim(place, "0123456789") == ""
	if r.kind.Key == "id" && !r.kind.isFlow() && !isNumber {
		rows, err := r.client.named(ctx, r.kind, place)
		if err == nil && len(rows) != 1 {
			places := []string{}
			for _, row := range rows {
				places = append(places, r.placeOf(row))
			}
			err = fmt.Errorf("There is no %s %s.", r.kind.Kind, place)
			if len(rows) > 1 {
				err = fmt.Errorf("%s has several: import one by its id, %s.", place, strings.Join(places, " or "))
			}
		}
		if err != nil {
			answer.Diagnostics.AddError("Nothing was imported", err.Error())
			return
		}
		place = r.placeOf(rows[0])
	}
	answer.Diagnostics.Append(answer.State.SetAttribute(ctx, path.Root("id"), place)...)
}

// stateAfter is the plan, with what only the server knows from its answer.
func (r *objectResource) stateAfter(ctx context.Context, raw tftypes.Value, plan map[string]tftypes.Value, after object, problems *diag.Diagnostics) tftypes.Value {
	for name, one := range r.kind.Attributes {
		if plan[name].IsFullyKnown() {
			continue
		}
		value := r.valueOf(name, after)
		var err error
		if one.IsFlow {
			value, err = r.flowName(ctx, value)
		}
		if err == nil {
			plan[name], err = one.fromAPI(value)
		}
		if err != nil {
			plan[name] = typed0(one.terraformType())
			problems.AddAttributeError(path.Root(name), "Unexpected answer", err.Error()+".")
		}
	}
	plan["id"] = tftypes.NewValue(tftypes.String, r.placeOf(after))
	return tftypes.NewValue(raw.Type(), plan)
}

func fieldsOf(raw tftypes.Value) map[string]tftypes.Value {
	found := map[string]tftypes.Value{}
	if raw.IsNull() || !raw.IsKnown() || raw.As(&found) != nil {
		return map[string]tftypes.Value{}
	}
	return found
}

func textOf(value tftypes.Value) string {
	var text string
	if value.IsKnown() && !value.IsNull() {
		_ = value.As(&text)
	}
	return text
}

type privateReader interface {
	GetKey(context.Context, string) ([]byte, diag.Diagnostics)
}

func digestsOf(ctx context.Context, from privateReader, problems *diag.Diagnostics) map[string]string {
	text, found := from.GetKey(ctx, digestsKey)
	problems.Append(found...)
	digests := map[string]string{}
	if len(text) > 0 && json.Unmarshal(text, &digests) != nil {
		return map[string]string{}
	}
	return digests
}

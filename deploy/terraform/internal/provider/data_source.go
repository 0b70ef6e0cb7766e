package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// objectData shows what the API knows of a flow.
type objectData struct {
	name   string
	kind   kind
	client *client
}

func (d *objectData) Metadata(_ context.Context, asked datasource.MetadataRequest, answer *datasource.MetadataResponse) {
	answer.TypeName = asked.ProviderTypeName + "_" + d.name
}

func (d *objectData) Schema(_ context.Context, _ datasource.SchemaRequest, answer *datasource.SchemaResponse) {
	attributes := map[string]schema.Attribute{}
	for name, one := range d.kind.Attributes {
		attributes[name] = one.dataAttribute()
	}
	attributes["flow"] = schema.StringAttribute{Required: true, Description: "The name or the id of a flow."}
	answer.Schema = schema.Schema{Description: "What Understudy knows now. Null is unknown, not zero.", Attributes: attributes}
}

func (d *objectData) Configure(_ context.Context, asked datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	d.client, _ = asked.ProviderData.(*client)
}

func (d *objectData) Read(ctx context.Context, asked datasource.ReadRequest, answer *datasource.ReadResponse) {
	var flow types.String
	answer.Diagnostics.Append(asked.Config.GetAttribute(ctx, path.Root("flow"), &flow)...)
	if answer.Diagnostics.HasError() {
		return
	}
	found, err := d.client.get(ctx, d.kind, flow.ValueString())
	if err != nil {
		answer.Diagnostics.AddError("Understudy was not read", err.Error())
		return
	}
	if found == nil {
		answer.Diagnostics.AddAttributeError(path.Root("flow"), "No such flow", fmt.Sprintf("There is no flow %s, or the token may not see it.", flow.ValueString()))
		return
	}
	values := map[string]tftypes.Value{"flow": tftypes.NewValue(tftypes.String, flow.ValueString())}
	for name, one := range d.kind.Attributes {
		if values[name], err = one.fromAPI(found[name]); err != nil {
			answer.Diagnostics.AddAttributeError(path.Root(name), "Unexpected answer", err.Error()+".")
		}
	}
	answer.State.Raw = tftypes.NewValue(answer.State.Schema.Type().TerraformType(ctx), values)
}

// Package provider is the Terraform provider: one implementation for all kinds of objects.
package provider

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// The variables that the command line uses too.
const (
	urlVariable       = "UNDERSTUDY_URL"
	tokenVariable     = "UNDERSTUDY_TOKEN"
	tokenFileVariable = "UNDERSTUDY_TOKEN_FILE"
	defaultTimeout    = 30
)

type understudy struct{ version string }

// New returns what providerserver starts.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &understudy{version} }
}

type settings struct {
	URL     types.String `tfsdk:"url"`
	Token   types.String `tfsdk:"token"`
	Timeout types.Int64  `tfsdk:"timeout"`
	CAFile  types.String `tfsdk:"ca_file"`
}

func (p *understudy) Metadata(_ context.Context, _ provider.MetadataRequest, answer *provider.MetadataResponse) {
	answer.TypeName, answer.Version = "understudy", p.version
}

func (p *understudy) Schema(_ context.Context, _ provider.SchemaRequest, answer *provider.SchemaResponse) {
	answer.Schema = schema.Schema{
		Description: "Clusters, flows and their parts in Understudy.",
		Attributes: map[string]schema.Attribute{
			"url":     schema.StringAttribute{Optional: true, Description: "The address of Understudy; default: " + urlVariable + "."},
			"token":   schema.StringAttribute{Optional: true, Sensitive: true, Description: "An API token; default: " + tokenVariable + ", or the file that " + tokenFileVariable + " names."},
			"timeout": schema.Int64Attribute{Optional: true, Description: fmt.Sprintf("Seconds for each request; default: %d.", defaultTimeout)},
			"ca_file": schema.StringAttribute{Optional: true, Description: "A PEM file with the certificates that sign Understudy's; default: those of the system."},
		},
	}
}

func (p *understudy) Configure(ctx context.Context, asked provider.ConfigureRequest, answer *provider.ConfigureResponse) {
	var given settings
	answer.Diagnostics.Append(asked.Config.Get(ctx, &given)...)
	if answer.Diagnostics.HasError() {
		return
	}
	made := p.client(given, &answer.Diagnostics)
	answer.ResourceData, answer.DataSourceData = made, made
}

func (p *understudy) client(given settings, problems *diag.Diagnostics) *client {
	if given.URL.IsUnknown() || given.Token.IsUnknown() || given.CAFile.IsUnknown() || given.Timeout.IsUnknown() {
		return &client{missing: "url, token, timeout or ca_file of the provider is known only after apply; apply what it depends on first (-target)"}
	}
	address := firstText(given.URL.ValueString(), os.Getenv(urlVariable))
	if parsed, err := url.Parse(address); address == "" {
		problems.AddAttributeError(path.Root("url"), "No address", "Set url to the address of Understudy, or the variable "+urlVariable+".")
	} else if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" {
		problems.AddAttributeError(path.Root("url"), "No address", fmt.Sprintf("%q is not an address such as https://understudy.example.com.", address))
	}
	token, err := tokenOf(given.Token.ValueString())
	if err != nil {
		problems.AddAttributeError(path.Root("token"), "No token", err.Error())
	}
	seconds := int64(defaultTimeout)
	if !given.Timeout.IsNull() {
		seconds = given.Timeout.ValueInt64()
	}
	if seconds < 1 || seconds > 3600 {
		problems.AddAttributeError(path.Root("timeout"), "No deadline", fmt.Sprintf("timeout is %d; it must be between 1 and 3600 seconds.", seconds))
	}
	made, err := newClient(address, token, "terraform-provider-understudy/"+p.version, given.CAFile.ValueString(), time.Duration(seconds)*time.Second)
	if err != nil {
		problems.AddAttributeError(path.Root("ca_file"), "No certificates", err.Error()+".")
	}
	return made
}

func tokenOf(given string) (string, error) {
	if token := firstText(given, os.Getenv(tokenVariable)); token != "" {
		return token, nil
	}
	name := os.Getenv(tokenFileVariable)
	if name == "" {
		return "", fmt.Errorf("Set token to an API token of Understudy, or one of the variables %s and %s.", tokenVariable, tokenFileVariable)
	}
	text, err := os.ReadFile(name)
	if token := strings.TrimSpace(string(text)); err == nil && token != "" {
		return token, nil
	}
	return "", fmt.Errorf("The file %s, which %s names, cannot be read or is empty.", name, tokenFileVariable)
}

func firstText(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

func (p *understudy) Resources(context.Context) []func() resource.Resource {
	var found []func() resource.Resource
	for _, name := range sortedNames(kinds.Resources) {
		found = append(found, func() resource.Resource {
			return &objectResource{name: name, kind: kinds.Resources[name]}
		})
	}
	return found
}

func (p *understudy) DataSources(context.Context) []func() datasource.DataSource {
	var found []func() datasource.DataSource
	for _, name := range sortedNames(kinds.DataSources) {
		found = append(found, func() datasource.DataSource {
			return &objectData{name: name, kind: kinds.DataSources[name]}
		})
	}
	return found
}

// The Terraform provider of Understudy: clusters, flows and their parts as resources.
package main

import (
	"context"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"understudy/terraform-provider-understudy/internal/provider"
)

// The build sets it: -ldflags "-X main.version=1.2.3".
var version = "dev"

func main() {
	options := providerserver.ServeOpts{Address: "registry.terraform.io/understudy/understudy"}
	if err := providerserver.Serve(context.Background(), provider.New(version), options); err != nil {
		log.Fatal(err)
	}
}

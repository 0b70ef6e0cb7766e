package provider

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"sort"
)

// Modes: what an attribute is when the configuration leaves it out.
const (
	required  = "required"
	defaulted = "defaulted" // the default of a new object
	kept      = "kept"      // what the server has
	nullable  = "nullable"  // null, which the API has as a value
	computed  = "computed"  // only the server sets it
)

// attribute is one field of the API. `manage.py write_terraform` writes these.
type attribute struct {
	Type      string               `json:"type"`
	Mode      string               `json:"mode"`
	About     string               `json:"about"`
	Default   any                  `json:"default"`
	Least     *float64             `json:"least"`
	Most      *float64             `json:"most"`
	Longest   *int                 `json:"longest"`
	OneOf     []string             `json:"one_of"`
	Fields    map[string]attribute `json:"fields"`
	Replaces  bool                 `json:"replaces"`
	Sensitive bool                 `json:"sensitive"`
	// The API answers with the id of a flow, where a configuration has its name or id.
	IsFlow bool `json:"is_flow"`
	// Only the provider uses it.
	Local bool `json:"local"`
}

// kind is one kind of objects of the API.
type kind struct {
	Kind       string `json:"kind"`
	About      string `json:"about"`
	Collection string `json:"collection"`
	// With `{}` where the object's place is.
	Address string `json:"address"`
	// The attribute that is its place: id, or a name.
	Key          string               `json:"key"`
	NamedBy      string               `json:"named_by"`
	IsPartOfFlow bool                 `json:"is_part_of_flow"`
	Attributes   map[string]attribute `json:"attributes"`
}

//go:embed kinds.json
var written []byte

var kinds = func() (found struct {
	Resources   map[string]kind `json:"resources"`
	DataSources map[string]kind `json:"data_sources"`
}) {
	decoder := json.NewDecoder(bytes.NewReader(written))
	decoder.UseNumber()
	if err := decoder.Decode(&found); err != nil {
		panic(fmt.Sprintf("kinds.json: %v", err))
	}
	return found
}()

// isFlow: its rules are a property on the server, and it may have to be stopped.
func (k kind) isFlow() bool { return k.Kind == "Flow" }

func sortedNames[T any](of map[string]T) []string {
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

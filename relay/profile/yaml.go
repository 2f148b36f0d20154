package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// value returns the value of a key of the front matter; nil if the key is missing.
type value []ast.Node

// parseYAML parses a front matter. It takes the needed values from the syntax tree and decodes nothing, so
// that no alias is expanded.
func parseYAML(text string) (map[string]value, error) {
	keys, err := parseMapping(text)
	if err == nil {
		return keys, nil
	}
	// Many descriptions contain a colon, which is not valid YAML. Claude Code accepts them.
	if quoted := quotePlain(text); quoted != text {
		if keys, more := parseMapping(quoted); more == nil {
			return keys, nil
		}
	}
	return nil, err
}

func parseMapping(text string) (keys map[string]value, err error) {
	if strings.Count(text, "[")+strings.Count(text, "{") > maxNesting {
		return nil, fmt.Errorf("has more than %d brackets", maxNesting)
	}
	defer func() {
		// The parser has panicked on input that is not YAML.
		if r := recover(); r != nil {
			keys, err = nil, fmt.Errorf("is not YAML: %v", r)
		}
	}()
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("is not YAML: %.300s", first)
	}
	if len(file.Docs) != 1 {
		return nil, errors.New("is not one YAML document")
	}
	var entries []*ast.MappingValueNode
	switch body := file.Docs[0].Body.(type) {
	case *ast.MappingNode:
		entries = body.Values
	case *ast.MappingValueNode:
		entries = []*ast.MappingValueNode{body}
	default:
		return nil, errors.New("has no keys")
	}
	keys = map[string]value{}
	for _, e := range entries {
		if _, ok := e.Key.(*ast.MergeKeyNode); ok {
			return nil, errors.New("has a merge key (<<), which is not followed")
		}
		key, ok := e.Key.(*ast.StringNode)
		if !ok {
			continue // another type of key, such as a number, is none of ours
		}
		if _, twice := keys[key.Value]; twice {
			return nil, fmt.Errorf("has the key %.60q twice", key.Value)
		}
		keys[key.Value] = value{e.Value}
	}
	return keys, nil
}

var plainLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(?m)^([A-Za-z][A-Za-z_-]*:)[ \t]+([^\\s\"'\\[{|>&*!%@`#].*)$")
})

// quotePlain quotes plain texts that follow a key on its line.
func quotePlain(text string) string {
	return plainLine().ReplaceAllStringFunc(text, func(line string) string {
		m := plainLine().FindStringSubmatch(line)
		quoted, err := json.Marshal(strings.TrimRight(m[2], " \t"))
		if err != nil {
			return line
		}
		return m[1] + " " + string(quoted)
	})
}

// text returns the value as a text; "" if the key is missing.
func (v value) text() (string, error) {
	if len(v) == 0 {
		return "", nil
	}
	switch n := v[0].(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case nil:
		return "", errors.New("has no value")
	default:
		return "", fmt.Errorf("is %s, must be a text", noun(n))
	}
}

// list returns the value as a list of tools. It is nil if the key is missing, or if the value names all
// tools.
func (v value) list() ([]string, error) {
	if len(v) == 0 {
		return nil, nil
	}
	items := []ast.Node{v[0]}
	if seq, ok := v[0].(*ast.SequenceNode); ok {
		items = seq.Values
	}
	list := []string{}
	for _, item := range items {
		s, err := value{item}.text()
		if err != nil {
			return nil, fmt.Errorf("%w; give names with commas between them, [] for none, or leave the key out for all", err)
		}
		list = append(list, splitTools(s)...)
	}
	for _, name := range list {
		if name == "*" {
			return nil, nil
		}
	}
	return list, nil
}

func noun(n ast.Node) string {
	switch n.Type() {
	case ast.NullType:
		return "empty"
	case ast.SequenceType:
		return "a list"
	case ast.MappingType, ast.MappingValueType:
		return "an object"
	case ast.AliasType, ast.AnchorType:
		return "an alias or an anchor"
	case ast.BoolType:
		return "true or false"
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		return "a number"
	}
	return "something else (" + n.Type().String() + ")"
}

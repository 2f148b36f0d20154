package view

import (
	"slices"
	"strings"
	"teambridge/status/api"
)

// MinPrefix is the least number of characters that identify an id, if no other id begins with them.
const MinPrefix = 4

// WholeID returns the id that equals query or begins with it, or "" if there is none. The error is [api.CodeUsage] if
// several begin with it.
func WholeID(query string, ids []string) (string, error) {
	var found []string
	for _, id := range ids {
		if id == query {
			return id, nil
		}
		if len(query) >= MinPrefix && strings.HasPrefix(id, query) && !slices.Contains(found, id) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	slices.Sort(found)
	const most = 10
	more := ""
	if len(found) > most {
		found, more = found[:most], " and others"
	}
	return "", api.Decide(api.CodeUsage, "matches are "+strings.Join(found, ", ")+more, "several ids begin with %q", query)
}

package inbox

import (
	"fmt"

	"teambridge/teams/rawjson"
)

// PassedOver is an entry of an inbox file that is not a message, so no agent receives it. A current Claude
// Code removes it when it next reads its inbox.
type PassedOver struct {
	Number int    // the entry's number in the file, from 1
	Why    string // such as "it has no text"
}

func (p PassedOver) String() string {
	return fmt.Sprintf("entry %d is not a message: %s", p.Number, p.Why)
}

// unfit returns why an object in an inbox is not a message; "" if it is one.
func unfit(row *Row) string {
	if row.From != "" && row.Text != "" {
		return ""
	}
	fields, err := rawjson.Fields(row.Raw)
	if err != nil {
		return "it is not an object"
	}
	text := map[string]bool{}
	for _, f := range fields {
		text[f.Name] = rawjson.Kind(f.Value.Of(row.Raw)) == '"'
	}
	switch {
	case !text["from"]:
		return "it has no sender"
	case !text["text"]:
		return "it has no text"
	}
	return ""
}

package link

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"teambridge/inbox/ledger"
	"teambridge/teams"
	"teambridge/teams/excerpt"
	"teambridge/teams/rawjson"
)

// All input from other machines passes through this file before it is used. It is decoded strictly and with
// limits. Each faulty part is refused on its own, so that it does not block the others.

// Limits on the data of one machine. Data beyond them is ignored, and our own offers are cut to them.
const (
	MaxTeams   = 100  // teams that it offers
	MaxMembers = 200  // members of one of them
	MaxOffered = 1000 // members of all of them together
)

const (
	maxFrame   = 2 << 20 // bytes; a hub's own limit is lower
	maxName    = 1024    // bytes of a name, or of a summary
	maxWords   = 1024    // bytes of a reason; longer ones are cut
	maxAnswers = 2000    // receipts, or queried ids, in a frame; the rest is ignored
)

// opened is the valid part of a frame.
type opened struct {
	frame
	list    []ledger.Incoming
	refused []ledger.Receipt // of messages, each with the reason
	left    int              // parts that were ignored without a receipt to the sender
	why     string           // the first fault; "" if there is none
}

func (o *opened) leave(reason string) {
	o.left++
	o.why = cmp.Or(o.why, reason)
}

// openFrame decodes a frame. It fails only if the text is not a frame at all. If the frame has a later
// version, openFrame decodes only the version.
func openFrame(text []byte) (o opened, err error) {
	var f struct {
		Version  int               `json:"v"`
		Ledger   string            `json:"ledger"`
		For      string            `json:"for"`
		Messages []json.RawMessage `json:"messages"`
		Receipts []json.RawMessage `json:"receipts"`
		Query    []json.RawMessage `json:"query"`
	}
	var v struct {
		Version int `json:"v"`
	}
	switch err := json.Unmarshal(text, &v); {
	case len(text) > maxFrame:
		return o, fmt.Errorf("it has %d bytes, over %d", len(text), maxFrame)
	case err != nil:
		return o, err
	case v.Version < 1:
		return o, errors.New("it has no version")
	}
	if o.Version = v.Version; o.Version > Version {
		return o, nil
	}
	if err := cmp.Or(json.Unmarshal(text, &f), rawjson.Distinct(text)); err != nil {
		return o, err
	}
	if o.Ledger, o.For = f.Ledger, f.For; !label(f.Ledger, true) || !label(f.For, true) {
		return o, errors.New("the name of its ledger is not valid")
	}
	for i, raw := range f.Messages {
		var m message
		err := strictly(raw, &m)
		var in ledger.Incoming
		if i >= maxMessages {
			err = fmt.Errorf("a frame has %d messages at most", maxMessages)
		} else if err == nil {
			in, err = incoming(m)
		}
		switch {
		case err == nil:
			o.list = append(o.list, in)
		case id(raw) == "" || len(o.refused) >= maxAnswers:
			o.leave("a message: " + err.Error())
		default:
			o.refused, o.why = append(o.refused, ledger.Receipt{ID: id(raw), Stage: ledger.StageRefused, Reason: words(err.Error())}), cmp.Or(o.why, "a message: "+err.Error())
		}
	}
	for i, raw := range f.Receipts {
		var r ledger.Receipt
		err := strictly(raw, &r)
		switch {
		case i >= maxAnswers:
			err = fmt.Errorf("a frame has %d receipts at most", maxAnswers)
		case err == nil && !label(r.ID, false):
			err = errors.New("it has no id")
		}
		if err != nil {
			o.leave("a receipt: " + err.Error())
			continue
		}
		switch r.Stage {
		case ledger.StageReceived, ledger.StageVerified, ledger.StageConsumed, ledger.StageSeen, ledger.StageRefused, ledger.StageLost, ledger.StageUnknown, ledger.StageReset:
			r.Reason, r.Reach = words(r.Reason), words(r.Reach)
			o.Receipts = append(o.Receipts, r)
		default: // a later version's stage, or one that only the sender sets
		}
	}
	for i, raw := range f.Query {
		var id string
		if err := strictly(raw, &id); err != nil || !label(id, false) || i >= maxAnswers {
			o.leave("a queried id is not valid, or there are too many of them")
			continue
		}
		o.Query = append(o.Query, id)
	}
	return o, nil
}

// incoming converts a message for the ledger, or returns its fault.
func incoming(m message) (in ledger.Incoming, err error) {
	for _, field := range []struct{ what, text string }{{"id", m.ID}, {"team", m.Team}, {"recipient", m.Member}, {"sender", m.From}} {
		switch {
		case strings.TrimSpace(field.text) == "":
			return in, fmt.Errorf("it has no %s", field.what)
		case len(field.text) > maxName:
			return in, fmt.Errorf("its %s has %d bytes, over %d", field.what, len(field.text), maxName)
		case !label(field.text, false):
			return in, fmt.Errorf("its %s holds a control character or a line break", field.what)
		}
	}
	switch {
	case strings.TrimSpace(m.Text) == "":
		return in, errors.New("it has no text")
	case len(m.Name) > maxName:
		return in, fmt.Errorf("its name has %d bytes, over %d", len(m.Name), maxName)
	case len(m.About) > maxName:
		return in, fmt.Errorf("its summary has %d bytes, over %d", len(m.About), maxName)
	}
	raw, err := json.Marshal(content{m.Name, m.Text, m.About})
	return ledger.Incoming{ID: m.ID, Team: m.Team, Member: m.Member, From: m.From, Digest: m.digest(), Raw: raw, Asks: m.Ask, Sent: m.Sent}, err
}

// openPresence decodes a presence, and returns its valid part. left describes the ignored parts, or is "".
// Parts that a later version writes differently are ignored, too.
func openPresence(text []byte) (p Presence, left string, err error) {
	if err := rawjson.ExactFold(text); err != nil {
		return p, "", err
	}
	err = json.Unmarshal(text, &p)
	if errors.As(err, new(*json.UnmarshalTypeError)) && p.Version > Version {
		err = nil
	}
	if err == nil && !(label(p.Instance, true) && label(p.Ledger, true) && label(p.Program, true)) {
		err = errors.New("a name in it is not valid")
	}
	if err != nil {
		return Presence{}, "", err
	}
	all, n := p.Teams, 0
	leave := func(reason string) {
		n++
		left = cmp.Or(left, reason)
	}
	p.Teams = nil
	names, total := map[string]bool{}, 0
	for _, t := range all {
		switch err := teams.CheckName("team", t.Team); {
		case err != nil:
			leave(err.Error())
			continue
		case names[t.Team]:
			leave(fmt.Sprintf("team %q is listed twice", t.Team))
			continue
		case len(p.Teams) == MaxTeams:
			leave(fmt.Sprintf("it offers more than %d teams", MaxTeams))
			continue
		}
		names[t.Team] = true
		offered := Team{Team: t.Team}
		there := map[string]bool{}
		for _, m := range t.Members {
			switch {
			case !label(m.Member, false):
				leave("a member of " + t.Team + " has no valid name")
				continue
			case there[m.Member]:
				leave(fmt.Sprintf("member %q of %s is listed twice", m.Member, t.Team))
				continue
			case len(offered.Members) == MaxMembers || total == MaxOffered:
				leave(fmt.Sprintf("it offers more than %d members of a team, or %d in all", MaxMembers, MaxOffered))
				continue
			}
			there[m.Member] = true
			total++
			m.Word, m.Why, m.Waits, m.Since, m.WaitsSince = words(m.Word), words(m.Why), words(m.Waits), sane(m.Since), sane(m.WaitsSince)
			offered.Members = append(offered.Members, m)
		}
		p.Teams = append(p.Teams, offered)
	}
	if n > 1 {
		left += fmt.Sprintf("; and %d more", n-1)
	}
	return p, left, nil
}

// strictly decodes a value, and fails if decoding would change it.
func strictly(raw []byte, v any) error {
	if err := rawjson.ExactFold(raw); err != nil {
		return err
	}
	if bytes.Equal(raw, []byte("null")) {
		return errors.New("it is null")
	}
	return json.Unmarshal(raw, v)
}

// id returns the id of a refused message, or "" if no receipt can name it.
func id(raw []byte) string {
	var m struct{ ID json.RawMessage }
	var text string
	if json.Unmarshal(raw, &m) != nil || strictly(m.ID, &text) != nil || !label(text, false) {
		return ""
	}
	return text
}

// label reports whether a text can be a name: one short line, and not blank unless blank is true.
func label(text string, blank bool) bool {
	return (blank && text == "" || strings.TrimSpace(text) != "") && len(text) <= maxName && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// words returns a text in a form to show to people: one line of limited length.
func words(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, excerpt.Bytes(text, maxWords))
}

// sane returns t, or the zero time if some clocks or JSON in some time zone could not represent t.
func sane(t time.Time) time.Time {
	if year := t.UTC().Year(); year < 2000 || year > 9000 {
		return time.Time{}
	}
	return t
}

package transcript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"hash/maphash"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Usage is the number of tokens that answers of a model took.
type Usage struct {
	Input         int64  `json:"input_tokens"` // without those from a cache
	CacheCreation *int64 `json:"cache_creation_input_tokens"`
	CacheRead     *int64 `json:"cache_read_input_tokens"`
	Output        int64  `json:"output_tokens"`
}

// UsageOf reads the usage of a message or a result. ok is false if there is none, or if no model can have it.
func UsageOf(raw json.RawMessage) (u Usage, ok bool) {
	const limit = 1 << 50
	if json.Unmarshal(raw, &u) != nil || len(raw) == 0 || u.Input < 0 || u.Output < 0 || u.Input+u.Output == 0 || max(u.Input, u.Output) > limit {
		return Usage{}, false
	}
	for _, n := range []**int64{&u.CacheCreation, &u.CacheRead} {
		if *n != nil && (**n < 0 || **n > limit) {
			*n = nil
		}
	}
	return u, true
}

// Spent is the sum of the usage of some answers.
type Spent struct {
	Answers                                 int64
	Input, CacheCreation, CacheRead, Output int64
}

// Add adds v to s, n times.
func (s *Spent) Add(v Spent, n int64) {
	s.Answers += n * v.Answers
	s.Input += n * v.Input
	s.CacheCreation += n * v.CacheCreation
	s.CacheRead += n * v.CacheRead
	s.Output += n * v.Output
}

// Spent returns the usage of one answer as a sum.
func (u Usage) Spent() Spent {
	s := Spent{Answers: 1, Input: u.Input, Output: u.Output}
	if u.CacheCreation != nil {
		s.CacheCreation = *u.CacheCreation
	}
	if u.CacheRead != nil {
		s.CacheRead = *u.CacheRead
	}
	return s
}

// Stated is the cost of a session so far, as its program stated it. A resumed session continues from its
// last Kept cost, and a fork from its parent's. In a version that keeps none, each process begins at 0.
type Stated struct {
	At   time.Time
	Cost map[string]float64 // by model, in US dollars
	Kept bool               // the transcript has it, so a process that resumes the session knows it
}

// Costs yields the cost between the statements of a session, which may be in any order, and the hour of the later
// one. before is the cost that a fork began with; else nil.
func Costs(before map[string]float64, list []Stated) iter.Seq2[Spending, float64] {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Stated) int { return a.At.Compare(b.At) })
	return func(yield func(Spending, float64) bool) {
		was, kept := map[string]float64{}, map[string]float64{}
		maps.Copy(was, before)
		maps.Copy(kept, before)
		for _, s := range list {
			for model, cost := range s.Cost {
				from := was[model]
				if cost < from { // another process: it began at the kept cost, or at 0
					if from = kept[model]; cost < from {
						from = 0
					}
				}
				if was[model] = cost; s.Kept {
					kept[model] = cost
				}
				if cost > from && !yield(Spending{Hour: s.At.Truncate(time.Hour), Model: model}, cost-from) {
					return
				}
			}
		}
	}
}

// Meter adds up the tokens and the cost in the transcript of one conversation. It reads each part of the file once.
//
// Each block of an answer can be a record of its own, and only the last one certainly has the whole usage. A fork
// begins with copies of its parent's records, which count for the parent alone.
type Meter struct {
	Session     string // the session of the conversation
	Parent      string // the session that this one was forked from, if recorded
	Team, Agent string // from the records; see [Record]
	Cwd         string
	Stated      []Stated
	Began       time.Time // its first answer that is not a copy

	tail    Tail
	counted *Counted
	spent   map[Spending]Spent
	last    answer
	at      time.Time
}

// Spending is an hour and a model for which tokens were spent.
type Spending struct {
	Hour  time.Time // in UTC
	Model string
	Open  bool // the transcript has stated no cost since
}

// answer is the last counted answer.
type answer struct {
	id string
	in Spending
	Spent
}

// Counted has the counted answers of all conversations.
type Counted struct {
	seed maphash.Seed
	ids  map[uint64]struct{}
}

// NewCounted returns an empty Counted.
func NewCounted() *Counted { return &Counted{maphash.MakeSeed(), map[uint64]struct{}{}} }

// first reports whether an answer was not counted before, and counts it.
func (c *Counted) first(id string) bool {
	h := maphash.String(c.seed, id)
	_, again := c.ids[h]
	c.ids[h] = struct{}{}
	return !again
}

// NewMeter returns a Meter for the conversation in a file. It leaves out answers that another Meter with the same
// counted has counted.
func NewMeter(path string, counted *Counted) *Meter {
	m := &Meter{Session: SessionOf(path), tail: Tail{Path: path}, counted: counted, spent: map[Spending]Spent{}}
	// Set for a teammate in the process of its lead.
	var of struct{ Name, TeamName string }
	if data, err := readSmall(strings.TrimSuffix(path, ".jsonl") + ".meta.json"); err == nil && Decode(data, &of) && of.TeamName != "" {
		m.Team, m.Agent = of.TeamName, of.Name
	}
	return m
}

// Path returns the path of the transcript.
func (m *Meter) Path() string { return m.tail.Path }

// Own reports whether the conversation belongs to the session itself, not to a subagent.
func (m *Meter) Own() bool { return filepath.Base(m.tail.Path) == m.Session+".jsonl" }

// StatedBefore returns the last cost that the session stated before a time, for a fork of it then.
func (m *Meter) StatedBefore(at time.Time) (cost map[string]float64) {
	for _, s := range m.Stated {
		if s.At.Before(at) {
			cost = s.Cost
		}
	}
	return cost
}

// Spent yields the spent tokens.
func (m *Meter) Spent() iter.Seq2[Spending, Spent] { return maps.All(m.spent) }

// Read reads the lines that were added to the file.
func (m *Meter) Read() error {
	for line, err := range m.tail.Lines() {
		if err != nil {
			return err
		}
		switch {
		case bytes.Contains(line, []byte(`"type":"assistant"`)):
			m.answer(line)
		case bytes.HasPrefix(line, []byte(`{"type":"cost-state"`)):
			m.state(line)
		}
	}
	return nil
}

func (m *Meter) answer(line []byte) {
	var r struct {
		Type, UUID, Cwd, Timestamp string
		Team                       string `json:"teamName"`
		Agent                      string `json:"agentName"`
		Original                   string `json:"requestSessionId"` // in a copy: the session of the original
		Message                    struct {
			ID, Model string
			Usage     json.RawMessage
		}
	}
	if !Decode(line, &r) || r.Type != "assistant" {
		return
	}
	at, err := time.Parse(time.RFC3339, r.Timestamp)
	if m.at = ValidTime(at); err != nil || m.at.IsZero() {
		return
	}
	m.Cwd = cmp.Or(r.Cwd, m.Cwd)
	if r.Team != "" {
		m.Team, m.Agent = r.Team, r.Agent
	}
	if r.Original != "" && r.Original != m.Session {
		m.Parent = r.Original
		return
	}
	u, ok := UsageOf(r.Message.Usage)
	id := cmp.Or(r.Message.ID, r.UUID)
	if !ok || id == "" || id != m.last.id && !m.counted.first(id) {
		return
	}
	if m.Began.IsZero() {
		m.Began = m.at
	}
	now := answer{id, Spending{m.at.Truncate(time.Hour), r.Message.Model, true}, u.Spent()}
	if id == m.last.id {
		now.in = m.last.in
		s := m.spent[m.last.in]
		s.Add(m.last.Spent, -1)
		m.spent[m.last.in] = s
	}
	s := m.spent[now.in]
	s.Add(now.Spent, 1)
	m.spent[now.in], m.last = s, now
}

// state reads the cost of the session, which the program writes when it ends. Versions between 2.1.257 and 2.1.280
// may not write it yet.
func (m *Meter) state(line []byte) {
	var r struct {
		ModelUsage json.RawMessage
		Unknown    bool `json:"hasUnknownModelCost"`
	}
	if !Decode(line, &r) || r.Unknown {
		return
	}
	s := Stated{m.at, CostOf(r.ModelUsage), true}
	for at, spent := range m.spent {
		if at.Open {
			delete(m.spent, at)
			at.Open = false
			closed := m.spent[at]
			closed.Add(spent, 1)
			m.spent[at] = closed
		}
	}
	m.last.in.Open = false
	if !slices.ContainsFunc(m.Stated, func(old Stated) bool { return old.At.Equal(s.At) && maps.Equal(old.Cost, s.Cost) }) { // a replaced file is read again
		m.Stated = append(m.Stated, s)
	}
}

// mostCost is more than a session can cost. Without a limit, a sum could be infinite, which JSON cannot hold.
const mostCost = 1e9

// CostOf returns the cost of each model in US dollars, from a result or a transcript of Claude Code.
func CostOf(modelUsage json.RawMessage) map[string]float64 {
	var all map[string]struct{ CostUSD float64 }
	json.Unmarshal(modelUsage, &all) // an error leaves out what cannot be read
	cost := map[string]float64{}
	for model, u := range all {
		if u.CostUSD > 0 && u.CostUSD < mostCost {
			cost[model] = u.CostUSD
		}
	}
	return cost
}

// Conversations yields the transcripts of all conversations that have changed since a time, with those of subagents
// and teammates in the process of another agent. root is the Claude directory. An unreadable folder or file comes
// with an error.
func Conversations(root string, since time.Time) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		projects := filepath.Join(root, "projects") + string(filepath.Separator) // the separator follows a link
		filepath.WalkDir(projects, func(path string, e os.DirEntry, err error) error {
			var info os.FileInfo
			switch {
			case errors.Is(err, fs.ErrNotExist): // gone meanwhile, or never there
				return nil
			case err == nil && (!e.Type().IsRegular() || filepath.Ext(path) != ".jsonl"):
				return nil
			case err == nil:
				if info, err = e.Info(); errors.Is(err, fs.ErrNotExist) || err == nil && info.ModTime().Before(since) {
					return nil
				}
			}
			if !yield(path, err) {
				return filepath.SkipAll
			}
			return nil
		})
	}
}

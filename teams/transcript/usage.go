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

// Usage is what the answers of a model took, in tokens.
type Usage struct {
	Input         int64  `json:"input_tokens"` // that were not in a cache
	CacheCreation *int64 `json:"cache_creation_input_tokens"`
	CacheRead     *int64 `json:"cache_read_input_tokens"`
	Output        int64  `json:"output_tokens"`
}

// UsageOf reads the usage of a message or a result. It is not ok if there is none, or one that no
// model can have.
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

// Spent is the usage of one answer.
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

// Stated is what a session had cost when its program said so. The program counts on when the session
// is resumed, and a fork counts on from its parent, but only from what is Kept. Of a version that keeps nothing, each
// process begins with 0.
type Stated struct {
	At   time.Time
	Cost map[string]float64 // by model, in US dollars
	Kept bool               // it is in the transcript, so that a process that resumes the session knows it
}

// Costs yields what was spent between what a session stated, in any order, and when that was said.
// before is what a fork began with; else it is nil.
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
				if cost < from { // another process
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

// Meter adds up what the transcript of one conversation says about tokens and cost. Each part of the
// file is read once.
//
// Each block of an answer can be a record of its own, and only the last one is sure to have the
// whole usage. A fork begins with copies of the records of its parent, which count for the parent alone.
type Meter struct {
	Session     string // that the conversation belongs to
	Parent      string // the session that this one is a fork of, if it says so
	Team, Agent string // as the records say; see [Record]
	Cwd         string
	Stated      []Stated
	Began       time.Time // its first answer that is no copy

	tail    Tail
	counted *Counted
	spent   map[Spending]Spent
	last    answer
	at      time.Time
}

// Spending says when and for which model tokens were spent.
type Spending struct {
	Hour  time.Time // that it was in, in UTC
	Model string
	Open  bool // the transcript has not stated the cost since
}

// answer is the last one that was counted.
type answer struct {
	id string
	in Spending
	Spent
}

// Counted are the answers that were counted, in all conversations.
type Counted struct {
	seed maphash.Seed
	ids  map[uint64]struct{}
}

// NewCounted returns no answers.
func NewCounted() *Counted { return &Counted{maphash.MakeSeed(), map[uint64]struct{}{}} }

// first reports whether an answer was not counted before, and counts it.
func (c *Counted) first(id string) bool {
	h := maphash.String(c.seed, id)
	_, again := c.ids[h]
	c.ids[h] = struct{}{}
	return !again
}

// NewMeter returns a Meter for the conversation in a file. Answers that another one with the same
// counted has counted are left out.
func NewMeter(path string, counted *Counted) *Meter {
	m := &Meter{Session: SessionOf(path), tail: Tail{Path: path}, counted: counted, spent: map[Spending]Spent{}}
	// A teammate in the process of its lead.
	var of struct{ Name, TeamName string }
	if data, err := readSmall(strings.TrimSuffix(path, ".jsonl") + ".meta.json"); err == nil && Decode(data, &of) && of.TeamName != "" {
		m.Team, m.Agent = of.TeamName, of.Name
	}
	return m
}

// Path is the file.
func (m *Meter) Path() string { return m.tail.Path }

// Own reports whether the conversation belongs to the session itself, not to a subagent.
func (m *Meter) Own() bool { return filepath.Base(m.tail.Path) == m.Session+".jsonl" }

// StatedBefore returns what the session had cost when it was forked then, as the fork knows.
func (m *Meter) StatedBefore(at time.Time) (cost map[string]float64) {
	for _, s := range m.Stated {
		if s.At.Before(at) {
			cost = s.Cost
		}
	}
	return cost
}

// Spent iterates over what was spent.
func (m *Meter) Spent() iter.Seq2[Spending, Spent] { return maps.All(m.spent) }

// Read reads what was added to the file.
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
		Original                   string `json:"requestSessionId"` // of a copy
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

// state reads what the session has cost, which the program writes when it ends. A version between 2.1.257 and 2.1.280
// may not yet do that.
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
	if !slices.ContainsFunc(m.Stated, func(old Stated) bool { return old.At.Equal(s.At) && maps.Equal(old.Cost, s.Cost) }) { // the file was replaced
		m.Stated = append(m.Stated, s)
	}
}

// mostCost is more than a session can have cost. JSON has no number for a sum that is infinite.
const mostCost = 1e9

// CostOf returns what models have cost, in US dollars, as Claude Code states it in a result and in a
// transcript.
func CostOf(modelUsage json.RawMessage) map[string]float64 {
	var all map[string]struct{ CostUSD float64 }
	json.Unmarshal(modelUsage, &all) // what can be read of it
	cost := map[string]float64{}
	for model, u := range all {
		if u.CostUSD > 0 && u.CostUSD < mostCost {
			cost[model] = u.CostUSD
		}
	}
	return cost
}

// Conversations yields the transcripts of all conversations that have changed since, also those of
// subagents and teammates in the process of another. root is the Claude directory. What cannot be read comes
// with an error.
func Conversations(root string, since time.Time) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		projects := filepath.Join(root, "projects") + string(filepath.Separator) // followed if it is a link
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

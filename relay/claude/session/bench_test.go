package session

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// turnLines returns the output of a process in one turn: a text, two tool calls and their results.
func turnLines(n int) [][]byte {
	result := strings.Repeat("a line of what a tool printed\\n", 60)
	var all [][]byte
	for _, l := range []string{
		isInit, echo(fmt.Sprint("f", n), "fix the build"),
		says(fmt.Sprint("a", n), `{'type':'text','text':'Let me see.'}`),
		says(fmt.Sprint("b", n), `{'type':'tool_use','id':'c`+fmt.Sprint(n)+`','name':'Bash','input':{'command':'go test ./...','description':'Run the tests'}}`),
		says(fmt.Sprint("c", n), `{'type':'tool_use','id':'d`+fmt.Sprint(n)+`','name':'Read','input':{'file_path':'/src/main.go'}}`),
		`{'type':'user','uuid':'r` + fmt.Sprint(n) + `','timestamp':'2026-11-20T18:00:01Z','message':{'content':[{'type':'tool_result','tool_use_id':'c` + fmt.Sprint(n) + `','content':'` + result + `'}]},'tool_use_result':{'stdout':'` + result + `'}}`,
		`{'type':'user','uuid':'s` + fmt.Sprint(n) + `','timestamp':'2026-11-20T18:00:02Z','message':{'content':[{'type':'tool_result','tool_use_id':'d` + fmt.Sprint(n) + `','content':'` + result + `'}]}}`,
		says(fmt.Sprint("e", n), `{'type':'text','text':'The build is green.'}`), isDone,
	} {
		all = append(all, quoted(l))
	}
	return all
}

// BenchmarkLines makes envelopes of a process's output.
func BenchmarkLines(b *testing.B) {
	lines := turnLines(0)
	envelopes, bytes := 0, 0
	a := New()
	for b.Loop() {
		for _, l := range lines {
			envelopes += len(tells(a, l))
			bytes += len(l)
		}
		a.over = "" // the turn has the same id again
	}
	b.ReportMetric(float64(envelopes)/b.Elapsed().Seconds(), "envelopes/s")
	b.ReportMetric(float64(bytes)/b.Elapsed().Seconds()/1e6, "MB/s")
}

// transcriptOf writes a transcript of at least that size and returns its path.
func transcriptOf(b *testing.B, size int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "s.jsonl")
	var all bytes.Buffer
	for n := 0; all.Len() < size; n++ {
		for _, l := range turnLines(n) {
			if !bytes.Contains(l, []byte(`"type":"user"`)) && !bytes.Contains(l, []byte(`"type":"assistant"`)) {
				continue
			}
			l = bytes.Replace(l, []byte("2026-11-20T18:00:01Z"), []byte(start.Add(time.Duration(n)*time.Second).Format(time.RFC3339)), 1)
			all.Write(append(l, '\n'))
		}
	}
	if err := os.WriteFile(path, all.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkRead50MB reads a transcript of 50 MB, all of it and from near its end on.
func BenchmarkRead50MB(b *testing.B) {
	path := transcriptOf(b, 50_000_000)
	read := func(b *testing.B, since time.Time) {
		envelopes := 0
		for b.Loop() {
			for _, err := range Read(b.Context(), path, Options{Since: since}) {
				if err != nil {
					b.Fatal(err)
				}
				envelopes++
			}
		}
		b.ReportMetric(float64(envelopes)/float64(b.N), "envelopes")
	}
	b.Run("all", func(b *testing.B) { read(b, time.Time{}) })
	b.Run("since", func(b *testing.B) { read(b, start.Add(24*time.Hour)) })
}

package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"teambridge/teams/proc"
	"teambridge/teams/transcript"
)

// playing is the environment variable of a process that plays an agent. Its value is the part, a space, and the
// Claude directory.
const playing = "TEAMBRIDGE_DEMO"

// The agents that need a process of their own.
const (
	playsLead    = "lead"
	playsScenes  = "scenes"
	playsSession = "session"
)

// Main plays an agent in a process that the demonstration has started, and does not return there. Call it first in
// main, since the demonstration starts its own program.
func Main() {
	part, claude, _ := strings.Cut(os.Getenv(playing), " ")
	var err error
	switch part {
	case "":
		return
	case playsLead:
		err = playLead(claude, nil)
	case playsScenes:
		err = playLead(claude, scenes())
	case playsSession:
		err = playSession(claude)
	default:
		err = fmt.Errorf("%s is %q: the demonstration has no such agent", playing, part)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "teambridge demo:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// environment returns the environment of a process that plays an agent.
func (d *demonstration) environment(part string) []string {
	return append(os.Environ(), playing+"="+part+" "+d.claude)
}

type object = map[string]any

const stamp = "2006-01-02T15:04:05.000Z"

func now() string { return time.Now().UTC().Format(stamp) }

// thisProcess returns the namespace of this process and its start time, as Claude Code writes them: on Linux
// "host#pid:[4026531836]" and field 22 of /proc/self/stat, elsewhere the host's name and nothing.
func thisProcess() (space, start string, err error) {
	if space, err = os.Hostname(); err != nil {
		return "", "", err
	}
	if link, err := proc.Namespace(); err == nil {
		space += "#" + link
	}
	if s, err := proc.Read(os.Getpid()); err == nil {
		start = s.Start
	}
	return space, start, nil
}

// transcriptOf returns the path of a session's transcript. The session is this process's.
func transcriptOf(claude, session string) (string, error) {
	dir, err := os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	return filepath.Join(claude, "projects", transcript.Slug(dir), session+".jsonl"), err
}

// appendTo adds a record to a transcript.
func appendTo(path string, record object) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(encoded(record), '\n'))
	return errors.Join(err, file.Close())
}

// given returns the texts that models received, from the transcripts whose names match.
func (d *demonstration) given(session string) (texts []string, err error) {
	paths, err := filepath.Glob(filepath.Join(d.claude, "projects", "*", session+".jsonl"))
	for _, path := range paths {
		tail := transcript.Tail{Path: path}
		for line, err := range tail.Lines() {
			if err != nil {
				return nil, err
			}
			if r, ok := transcript.Parse(line); ok && r.Type == "user" && r.Kind() != transcript.Results {
				texts = append(texts, transcript.Texts(r.Message.Content, ""))
			}
		}
	}
	return texts, err
}

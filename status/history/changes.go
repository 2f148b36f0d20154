package history

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"teambridge/status/api"
	"teambridge/teams/transcript"
)

// Changes returns the files that an agent has changed; see [api.Bridge].
func (l *Transcripts) Changes(ctx context.Context, team, who string, q api.ChangesQuery) ([]api.FileChanges, error) {
	paths, err := l.transcripts(ctx, team, who)
	if err != nil {
		return nil, err
	}
	files := map[string]*api.FileChanges{}
	var order []*api.FileChanges
	for c, err := range transcript.Changes(paths...) {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("read the transcript: %w", err)
		}
		if c.At.Before(q.Since) || q.File != "" && !strings.HasSuffix("/"+filepath.ToSlash(c.Path), "/"+strings.TrimPrefix(filepath.ToSlash(q.File), "/")) {
			continue
		}
		f := files[c.Path]
		if f == nil {
			f = &api.FileChanges{File: c.Path, First: c.At, Created: c.Created}
			files[c.Path], order = f, append(order, f)
		}
		f.Changes++
		f.Added, f.Removed = f.Added+c.Added, f.Removed+c.Removed
		if c.At.Before(f.First) { // the file is from another transcript
			f.First, f.Created = c.At, c.Created
		}
		if c.At.After(f.Last) {
			f.Last = c.At
		}
		if q.Patches {
			f.Patches = append(f.Patches, patch(c))
		}
	}
	list := []api.FileChanges{}
	for _, f := range order {
		slices.SortStableFunc(f.Patches, func(a, b api.Patch) int { return a.At.Compare(b.At) })
		list = append(list, *f)
	}
	slices.SortStableFunc(list, func(a, b api.FileChanges) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.File, b.File)) })
	return list, nil
}

// patch returns the beginning of a patch, in whole lines.
func patch(c transcript.Change) api.Patch {
	p := api.Patch{At: c.At, Text: c.Patch}
	if len(p.Text) > api.MaxPatch {
		p.Text, p.Cut = p.Text[:strings.LastIndexByte(p.Text[:api.MaxPatch], '\n')+1], true
	}
	return p
}

// transcripts returns the transcripts of an agent and of its subagents, without teammates in its process.
func (l *Transcripts) transcripts(ctx context.Context, team, who string) ([]string, error) {
	t := &transcriptReader{Archive: l.Archive, team: team, who: who}
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	s, found, err := t.relayed(ctx)
	if err != nil {
		return nil, err
	}
	if _, settings, err := t.openCode(ctx, s, found); err != nil || settings != nil {
		return nil, cmp.Or(err, api.Decide(api.CodeInvalid, "see what it did with: teambridge transcript "+who, "what an agent of OpenCode has changed is not known"))
	}
	path, err := t.path(ctx)
	if err != nil {
		return nil, err
	}
	paths := []string{path}
	if filepath.Base(path) != transcript.SessionOf(path)+".jsonl" {
		return paths, nil // the agent is a teammate in its lead's process
	}
	root, err := l.Opts.Root()
	if err != nil {
		return nil, err
	}
	o := newOwners()
	if err := o.addTeams(ctx, root); err != nil {
		return nil, err
	}
	for _, s := range transcript.Subagents(filepath.Join(strings.TrimSuffix(path, ".jsonl"), "subagents")) {
		if _, teammate := o.files[s.Path]; !teammate && s.TeamName == "" {
			paths = append(paths, s.Path)
		}
	}
	return paths, nil
}

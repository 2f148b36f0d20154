package server

import (
	"context"
	"time"

	"teambridge/status/view"
)

// refresh keeps the states of all teams up to date while there are streams.
func (s *Server) refresh(ctx context.Context) error {
	news, done := s.news.subscribe()
	defer done()
	return loop(ctx, news, s.dirty, s.limits.tick, func() {
		if s.shown.size() == 0 {
			return
		}
		if err := s.statuses.Refresh(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("the teams cannot be listed", "err", view.Describe(err))
		}
		// Changes in quick succession become one.
		select {
		case <-ctx.Done():
		case <-time.After(s.limits.gather):
		}
	})
}

// lookAtPanes looks at the registered panes every few seconds, so that no request has to.
func (s *Server) lookAtPanes(ctx context.Context) error {
	signal(s.paneNews)
	warned := false
	return loop(ctx, nil, s.paneNews, s.limits.tick, func() {
		changed, err := s.watch.Look(ctx)
		if err != nil && !warned && ctx.Err() == nil {
			s.log.Warn("the panes cannot be listed for now", "err", view.Describe(err))
		}
		if warned = err != nil; changed {
			signal(s.dirty)
		}
	})
}

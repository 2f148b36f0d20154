package server

import (
	"net/http"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/status/view"
)

// receipted answers with what became of one message that was sent through a
// service.
func (s *Server) receipted(w http.ResponseWriter, r *http.Request) error {
	ask := asked(r, "id", "createdAt")
	id, created := ask.text("id"), ask.number("createdAt", 0)
	if ask.err == nil && id == "" {
		ask.bad("id is missing: of the message")
	}
	if ask.err != nil {
		return ask.err
	}
	ctx := r.Context()
	team, err := s.instance(ctx, r.PathValue("team"), created)
	if err != nil {
		return err
	}
	member := s.opts.Root.MemberName(ctx, team.Team, r.PathValue("member"))
	receipt, found, err := s.reads.Receipt(ctx, inbox.SendKey{
		Root: s.opts.Root.Path(), Team: team.Team, CreatedAt: team.CreatedAt, Inbox: member, ID: id,
	})
	if err != nil {
		return err
	}
	if !found {
		return api.Decide(api.CodeNotFound, "the id is the one of the answer to the message",
			"no message %q was sent to %s of %s through the service", id, member, team.Team)
	}
	return write(w, http.StatusOK, view.Receipt(receipt))
}

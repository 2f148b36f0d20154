package doctor

import (
	"teambridge/status/alert"
	"teambridge/status/api"
	"teambridge/status/view"
)

// alerts reports alerts that could not be delivered.
func (x *examination) alerts() {
	if x.State == "" {
		return // reported
	}
	records, err := alert.Records(x.State)
	if err != nil {
		x.add(api.LevelProblem, "alerts", "", "", "the records of alerts cannot be read: "+view.Describe(err), "")
	}
	for _, r := range records {
		if r.Root != x.Root.Path() || !r.Running {
			continue // the command that sent them has reported it when it ended
		}
		to := "alerts to " + r.To
		if r.Team != "" {
			to += " of the team " + r.Team
		}
		switch p := r.Problem; {
		case p != nil && p.Refused:
			x.add(api.LevelProblem, "alerts", r.Team, "", to+" were refused at "+view.Clock(p.Since)+": "+p.Why,
				"check the address and the token, and restart the command or service that sends them: it then sends the items that still wait")
		case p != nil:
			x.add(api.LevelProblem, "alerts", r.Team, "", to+" are not delivered since "+view.Clock(p.Since)+": "+p.Why, "they are tried again for as long as items wait")
		case r.Last.IsZero():
			x.add(api.LevelOK, "alerts", r.Team, "", to+" are on; none was sent yet", "")
		default:
			x.add(api.LevelOK, "alerts", r.Team, "", to+" are delivered, the last at "+view.Clock(r.Last), "")
		}
	}
}

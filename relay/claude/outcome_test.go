package claude

import "testing"

// Only a turn that failed has a reason why it did.
func TestResultFailure(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		result Result
		want   string
	}{
		{Result{Subtype: "success", Text: "done", Reason: "completed"}, ""},
		{Result{Subtype: "success", IsError: true, Reason: "api_error"}, "api_error"},
		{Result{Subtype: "success", IsError: true}, "the model API failed"},
		{Result{Subtype: "error_max_turns", IsError: true}, "error_max_turns"},
		{Result{Subtype: "error_during_execution", Errors: []string{"no such tool", "again"}}, "no such tool; again"},
	} {
		if o := tc.result.outcome(); o.Failure != tc.want || o.Text != tc.result.Text {
			t.Errorf("%+v: %+v; want the failure %q", tc.result, o, tc.want)
		}
	}
}

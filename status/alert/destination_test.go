package alert

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"slack=/a/b":                        "slack (/a/b)",
		"telegram=env:TOKEN":                "telegram ($TOKEN)",
		"":                                  "",
		"slack":                             "",
		"slack=":                            "",
		"slack=env:":                        "",
		"mail=/a":                           "",
		"https://hooks.slack.com/" + secret: "",
		"slack=https://hooks.slack.com/" + secret: "",
	} {
		d, err := Parse(spec)
		if runtime.GOOS == "windows" && strings.HasPrefix(want, "slack") {
			continue // the path has a drive
		}
		if (err == nil) != (want != "") || err == nil && d.String() != want {
			t.Errorf("%q is %v, %v; want %q", spec, d, err, want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error repeats the address: %v", err)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	const good = "" // no error
	for _, c := range []struct{ kind, text, wrong string }{
		{Ntfy, "https://ntfy.sh/a-topic", good},
		{Ntfy, "https://ntfy.sh/a-topic\ntk_x\n", good},
		{Ntfy, "https://ntfy.sh", "not the name of a topic"},
		{Ntfy, "https://ntfy.sh/a/" + secret, "not the name of a topic"},
		{Ntfy, "https://ntfy.sh/" + secret + " a b", "it should have"},
		{Ntfy, "http://ntfy.sh/" + secret, "does not begin with https://"},
		{Ntfy, "ntfy://" + secret, "does not begin with https://"},
		{Ntfy, "https://me:" + secret + "@ntfy.sh/t", "does not begin with https:// and a host"},
		{Ntfy, "https://ntfy.sh/t " + secret + "ü", "it should have"},
		{Slack, "https://hooks.slack.com/services/T/B/x", good},
		{Slack, "http://[::1]:8/x", good},
		{Slack, "http://127.0.0.1.evil.example/" + secret, "does not begin with https://"},
		{Slack, secret, "does not begin with https://"},
		{Slack, "https://\x7f" + secret, "does not begin with https://"},
		{Slack, "https:" + secret, "does not begin with https://"},
		{Slack, "", "it should have"},
		{Slack, strings.Repeat("x", maxAddress+1), "that is no address"},
		{Telegram, "1:abc -10012", good},
		{Telegram, "https://bots.example/sub/bot1:abc/sendMessage @channel", good},
		{Telegram, "1:" + secret, "and the id of a chat"},
		{Telegram, "1:" + secret + " @channel https://bots.example/sub/", "https://HOST/botTOKEN/sendMessage"}, // as it once was
		{Telegram, "ftp://bots.example/" + secret + " 1", "does not begin with https://"},
		{Webhook, "https://a.example/hook?x=" + secret, good},
		{Webhook, "https://a.example/hook " + secret + " b", "it should have"},
		{Webhook, "https://a.example/hook\n{\"content\": $text, \"key\": \"" + secret + "\"}\n", good},
		{Webhook, "https://a.example/hook\n\n{\n \"n\": $more, \"all\": [$title, $plain, $things]}", good},
		{Webhook, "https://a.example/hook\n{\"content\": \"$text\"}" + secret, "the body is not JSON"},
		{Webhook, "https://a.example/hook\n{\"content\": $" + secret + "}", "is none of $title"},
		{Webhook, "https://a.example/hook\n{\"price\": \"$5\"}", "is none of $title"},
	} {
		path := filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(path, []byte(c.text), 0o600))
		for _, d := range []Destination{{Kind: c.kind, File: path}, {Kind: c.kind, Variable: "V"}} {
			if d.Variable != "" && c.text == "" || len(c.text) > maxAddress {
				continue
			}
			err := d.Check(func(string) (string, bool) { return c.text, true })
			if c.wrong == good != (err == nil) || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s %q: %v", c.kind, c.text, err)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error repeats the address: %v", err)
			}
		}
	}
	none := func(string) (string, bool) { return "", false }
	if err := (Destination{Kind: Slack, Variable: "V"}).Check(none); err == nil || err.Error() != "slack ($V): the variable is not set" {
		t.Errorf("without the variable: %v", err)
	}
	if err := (Destination{Kind: Slack, File: t.TempDir()}).Check(none); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
}

func TestFileOfOthers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing there")
	}
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, []byte("https://a.example/"), 0o600))
	must(t, os.Chmod(path, 0o640))
	if err := (Destination{Kind: Slack, File: path}).Check(nil); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
		t.Errorf("a file that others can read: %v", err)
	}
}

package supervisor

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf16"

	"teambridge/status/api"
)

// scheduler runs a task of the Task Scheduler; see schtasks and the schema of tasks at Microsoft's.
//
//   - It runs at login with the person's own token, so it needs no administrator and no password.
//   - A repetition starts it again within a minute after its end, and does nothing while it runs. RestartOnFailure
//     would not help: it is for a task that could not be started.
//   - conhost --headless runs it, since a console program would open a window.
//   - It cannot be asked to end, so it is killed, which loses no messages.
type scheduler struct{ user string } // security identifier

// ScheduledTask returns the job of the service on Windows, a task of the user with the security identifier user. state
// is the directory of its file, and log its log file.
func ScheduledTask(state, user, log string) Job {
	return atLogin("tasks", filepath.Join(state, "service-task.xml"), log, scheduler{user})
}

func (scheduler) program() string          { return "schtasks" }
func (scheduler) mark(words string) string { return comment(words) }

func (s scheduler) text(j Job, command, env []string) (string, error) {
	for _, v := range env {
		if key, _, _ := strings.Cut(v, "="); key != "PATH" {
			return "", api.Decide(api.CodeUsage, "set it for your account: setx "+key+" VALUE; then clear it here", "a task has the environment of your account, and cannot set $%s", key)
		}
	}
	var words []string
	for _, arg := range command {
		words = append(words, quote(arg))
	}
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-16"?>
%s
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Description>teambridge: messages into and out of Claude Code agent teams</Description>
  </RegistrationInfo>
  <Triggers>
    <LogonTrigger>
      <Repetition>
        <Interval>PT1M</Interval>
        <StopAtDurationEnd>false</StopAtDurationEnd>
      </Repetition>
      <Enabled>true</Enabled>
      <UserId>%[2]s</UserId>
    </LogonTrigger>
  </Triggers>
  <Principals>
    <Principal id="Author">
      <UserId>%[2]s</UserId>
      <LogonType>InteractiveToken</LogonType>
      <RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <AllowHardTerminate>true</AllowHardTerminate>
    <StartWhenAvailable>true</StartWhenAvailable>
    <AllowStartOnDemand>true</AllowStartOnDemand>
    <Enabled>true</Enabled>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <Priority>5</Priority>
  </Settings>
  <Actions Context="Author">
    <Exec>
      <Command>conhost.exe</Command>
      <Arguments>--headless %[3]s</Arguments>
    </Exec>
  </Actions>
</Task>
`, j.mark(), escape(s.user), escape(strings.Join(words, " "))), nil
}

// encode returns the file in UTF-16, the encoding of schtasks.
func (scheduler) encode(text string) []byte {
	data := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(strings.ReplaceAll(text, "\n", "\r\n"))) {
		data = append(data, byte(unit), byte(unit>>8))
	}
	return data
}

func (scheduler) decode(data []byte) string {
	var units []uint16
	for ; len(data) > 1; data = data[2:] {
		units = append(units, uint16(data[0])|uint16(data[1])<<8)
	}
	text := strings.TrimPrefix(string(utf16.Decode(units)), "\ufeff")
	return strings.ReplaceAll(text, "\r\n", "\n")
}

// quote quotes arg for a Windows command line, where backslashes are doubled only before a quote.
func quote(arg string) string {
	if arg != "" && !strings.ContainsAny(arg, " \t\"") {
		return arg
	}
	var b strings.Builder
	b.WriteByte('"')
	slashes := 0
	for _, r := range arg {
		switch r {
		case '\\':
			slashes++
			continue
		case '"':
			b.WriteString(strings.Repeat(`\`, 2*slashes+1))
		default:
			b.WriteString(strings.Repeat(`\`, slashes))
		}
		slashes = 0
		b.WriteRune(r)
	}
	b.WriteString(strings.Repeat(`\`, 2*slashes))
	b.WriteByte('"')
	return b.String()
}

func (s scheduler) start(ctx context.Context, j Job, _ string, changed bool) error {
	if _, err := j.run(ctx, "/Create", "/TN", name, "/XML", j.Path, "/F"); err != nil {
		return err
	}
	if changed {
		return s.restart(ctx, j)
	}
	_, err := j.run(ctx, "/Run", "/TN", name) // does nothing if it runs
	return err
}

// stop ends the task and unregisters it. A task that is not registered counts as ended.
func (s scheduler) stop(ctx context.Context, j Job) (bool, error) {
	if _, err := j.run(ctx, "/Query", "/TN", name); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return false, err
		}
		return true, ctx.Err()
	}
	_, ended := j.run(ctx, "/End", "/TN", name) // it need not run
	if _, err := j.run(ctx, "/Delete", "/TN", name, "/F"); err != nil {
		return false, errors.Join(err, ended)
	}
	return true, nil
}

func (scheduler) removed(context.Context, Job, bool) error { return nil }

func (s scheduler) restart(ctx context.Context, j Job) error {
	_, ended := j.run(ctx, "/End", "/TN", name) // it need not run
	if _, err := j.run(ctx, "/Run", "/TN", name); err != nil {
		return errors.Join(err, ended)
	}
	return nil
}

func (scheduler) state(ctx context.Context, j Job) (string, error) {
	out, err := j.run(ctx, "/Query", "/TN", name, "/FO", "CSV", "/NH")
	if err != nil {
		return "", err
	}
	row, err := csv.NewReader(strings.NewReader(out)).Read()
	if err != nil || len(row) < 3 {
		return "", fmt.Errorf("schtasks printed %q", out)
	}
	return row[2], nil
}

func (scheduler) logs(j Job, follow bool, lines int) []string {
	command := fmt.Sprintf("Get-Content -Encoding UTF8 -LiteralPath '%s' -Tail %s", strings.ReplaceAll(j.Log, "'", "''"), strconv.Itoa(lines))
	if follow {
		command += " -Wait"
	}
	return []string{"powershell", "-NoProfile", "-NonInteractive", "-Command", command}
}

func (scheduler) hint(Job, error) string { return "" }

package standin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/relay/process"
	"teambridge/relay/relaytest/model"
)

// The models of a [Home.OpenCode], of its provider OpenCodeProvider. The first is the default.
var openCodeModels = []string{"sonnet", "opus"}

// OpenCodeProvider is the provider of the models in a [Home.OpenCode].
const OpenCodeProvider = "standin"

// OpenCode makes the home one for OpenCode, too, and returns the program. Its models are sonnet, the default, and opus,
// of [OpenCodeProvider]; both call the home's API. The home's Env keeps it from reaching anything else. A server of
// OpenCode outlives its starter. If the test binary dies, all processes with this home as their HOME are killed (on
// Linux). If OpenCode is not installed, the test is skipped or fails, see Require.
func (h *Home) OpenCode(t testing.TB) string {
	t.Helper()
	program := RequireOpenCode(t)
	models := object{}
	for _, m := range openCodeModels {
		models[m] = object{"name": m}
	}
	config, err := json.MarshalIndent(object{
		"model": OpenCodeProvider + "/" + openCodeModels[0], "small_model": OpenCodeProvider + "/" + openCodeModels[0],
		"provider": object{OpenCodeProvider: object{
			"npm":  "@ai-sdk/openai-compatible", // comes with OpenCode
			"name": OpenCodeProvider, "models": models,
			"options": object{"baseURL": h.API.URL + "/v1", "apiKey": model.Key},
		}},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(h.Dir, ".config", "opencode")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "opencode.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := startGuard([]string{"PATH=" + os.Getenv("PATH")}, killHome, h.Dir)
	if err != nil {
		t.Fatalf("standin: guard the servers of OpenCode: %v", err)
	}
	t.Cleanup(g.disarm) // NewHome kills the processes that a test leaves
	return program
}

// killHome kills the processes with $0 as their HOME.
const killHome = `for e in /proc/[0-9]*/environ; do
	if tr '\0' '\n' <"$e" 2>/dev/null | grep -qxF -e "HOME=$0"; then p=${e%/environ}; kill -s KILL "${p#/proc/}"; fi
done`

// StartOpenCode starts `opencode serve` in the home, with args behind, waits until it answers for the home's Work, and
// returns its URL and its process id, which is also the id of its group. It is killed when the test ends.
func StartOpenCode(t testing.TB, h *Home, args ...string) (address string, pid int) {
	t.Helper()
	cmd := exec.Command(h.OpenCode(t), append([]string{"serve", "--hostname", "127.0.0.1", "--port", "0"}, args...)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = h.Work, h.Env(), 5*time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	process.OwnGroup(cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("standin: start OpenCode: %v", err)
	}
	printed := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if _, address, ok := strings.Cut(lines.Text(), "server listening on "); ok {
				printed <- address
			}
		}
		_ = cmd.Wait() // killed, as it should be
	}()
	t.Cleanup(func() {
		_ = process.KillGroup(cmd.Process.Pid)
		<-ended
		if t.Failed() {
			t.Logf("standin: OpenCode: %s", stderr.String())
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience) // it takes long to load on a busy machine
	defer cancel()
	select {
	case address = <-printed:
	case <-ended:
		t.Fatalf("standin: OpenCode ended: %s", stderr.String())
	case <-ctx.Done():
		t.Fatal("standin: OpenCode does not listen")
	}
	// Its agents and models are loaded with the first request for a folder. A prompt before that fails.
	query := "?" + url.Values{"location[directory]": {h.Work}}.Encode()
	if err := poll(ctx, func() (bool, error) {
		for _, path := range []string{"/api/agent", "/api/model"} {
			var list struct{ Data []json.RawMessage }
			if err := getJSON(ctx, address+path+query, &list); err != nil || len(list.Data) == 0 {
				return false, err
			}
		}
		return true, nil
	}); err != nil {
		t.Fatalf("standin: OpenCode is not ready: %v", err)
	}
	return address, cmd.Process.Pid
}

func getJSON(ctx context.Context, address string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", address, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

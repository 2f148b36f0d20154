package main

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"teambridge/relay/link/nats"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata/script")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"teambridge-hub": main,
		// untilfile waits until a file exists.
		"untilfile": func() {
			for {
				if _, err := os.Stat(os.Args[1]); err == nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		},
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata/script", UpdateScripts: *update, RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"A", "B"} {
				k, err := nats.NewKey()
				if err != nil {
					return err
				}
				e.Setenv("CARD_"+name, k.Card("a").String())
			}
			e.Setenv("TEAMBRIDGE_HUB_DIR", fmt.Sprint(e.WorkDir, "/hub"))
			return nil
		}})
}

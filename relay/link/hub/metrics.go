package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"teambridge/relay/link/nats/admin"
)

// WriteMetrics writes the state of the hub in the text format of Prometheus.
func (h *Hub) WriteMetrics(ctx context.Context, w io.Writer) error {
	h.mu.Lock()
	s, queues, live, failures, restarts := h.server, h.queues, h.live, h.failures, h.restarts
	h.mu.Unlock()
	var b strings.Builder
	metric := func(name, kind, help string) {
		fmt.Fprintf(&b, "# HELP teambridge_hub_%[1]s %[2]s\n# TYPE teambridge_hub_%[1]s %[3]s\n", name, help, kind)
	}
	single := func(name, kind, help string, v any) {
		metric(name, kind, help)
		fmt.Fprintf(&b, "teambridge_hub_%s %v\n", name, v)
	}
	single("machines", "gauge", "Machines that may use the hub.", len(live))
	single("probe_failures_total", "counter", "Probes that could not be stored.", failures)
	single("restarts_total", "counter", "Starts of the server after it stored nothing any more.", restarts)
	single("stream_limit_bytes", "gauge", "Bytes that may wait for all machines.", h.o.MaxBytes)
	if s != nil {
		connected := map[string]bool{}
		if z, err := s.Connz(&server.ConnzOptions{Username: true, Limit: 1 << 16}); err == nil {
			for _, c := range z.Conns {
				connected[c.AuthorizedUser] = true
			}
		}
		metric("machine_connected", "gauge", "Whether a machine is connected.")
		for _, name := range slices.Sorted(maps.Keys(live)) {
			v := 0
			if connected[live[name].Card.Key] {
				v = 1
			}
			fmt.Fprintf(&b, "teambridge_hub_machine_connected{machine=%q} %d\n", name, v)
		}
	}
	var waiting map[string]admin.Queue
	var bytes uint64
	err := errors.New("the server does not run")
	if queues != nil {
		waiting, bytes, err = queues.Waiting(ctx)
	}
	up := 1
	if err != nil {
		up = 0
	}
	single("up", "gauge", "Whether the hub answers requests about its queues.", up)
	if err == nil {
		single("stream_bytes", "gauge", "Bytes that wait for all machines.", bytes)
		metric("waiting_frames", "gauge", "Frames that wait for a machine.")
		for _, name := range slices.Sorted(maps.Keys(live)) {
			fmt.Fprintf(&b, "teambridge_hub_waiting_frames{machine=%q} %d\n", name, waiting[name].Frames)
		}
		single("sender_limit_frames", "gauge", "Frames that may wait for a machine from one other.", admin.MaxWaiting)
		metric("waiting_most_frames", "gauge", "Frames that wait for a machine from the one that has sent most of them.")
		for _, name := range slices.Sorted(maps.Keys(live)) {
			fmt.Fprintf(&b, "teambridge_hub_waiting_most_frames{machine=%q} %d\n", name, waiting[name].Most)
		}
		metric("waiting_oldest_seconds", "gauge", "Age of the oldest frame that waits for a machine.")
		for _, name := range slices.Sorted(maps.Keys(live)) {
			age := 0.0
			if q := waiting[name]; !q.Oldest.IsZero() {
				age = max(0, time.Since(q.Oldest).Seconds())
			}
			fmt.Fprintf(&b, "teambridge_hub_waiting_oldest_seconds{machine=%q} %.3f\n", name, age)
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// ServeHTTP answers with the metrics.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	h.WriteMetrics(r.Context(), w)
}

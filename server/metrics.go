package server

import (
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/tools"
)

// metrics are what a server tells of itself in figures, to who has a token. No
// label has a value that a client chooses, so their number is bounded. A nil one
// counts nothing: on stdio nobody could ask.
type metrics struct {
	registry  *prometheus.Registry
	calls     *prometheus.CounterVec
	took      *prometheus.HistogramVec
	summaries *prometheus.CounterVec
}

// latencies are the upper ends of the buckets in seconds: from what a command
// takes at least to what a client waits at most, each 2 to 2.5 times the last.
var latencies = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 50, 120, 300, 600}

func newMetrics(m *sandbox.Manager) *metrics {
	x := &metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "warmbox_calls_total", Help: "Calls of tools, by what came of them: ok, or the code that the caller was told.",
		}, []string{"tool", "code"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "warmbox_call_seconds", Help: "How long calls of tools took.", Buckets: latencies,
		}, []string{"tool"}),
		summaries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "warmbox_summaries_total", Help: "Summaries of long outputs, by who made them.",
		}, []string{"by"}),
	}
	x.registry.MustRegister(x.calls, x.took, x.summaries, &stock{m},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return x
}

func (x *metrics) handler() http.Handler {
	return promhttp.HandlerFor(x.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// count takes a call down.
func (x *metrics) count(tool string, result *mcp.CallToolResult, took time.Duration) {
	if x == nil {
		return
	}
	code, summaryBy := tools.Outcome(result)
	x.calls.WithLabelValues(tool, code).Inc()
	x.took.WithLabelValues(tool).Observe(took.Seconds())
	if summaryBy != "" {
		x.summaries.WithLabelValues(summaryBy).Inc()
	}
}

// stock tells what the Manager has when somebody asks.
type stock struct{ manager *sandbox.Manager }

var (
	boxesDesc  = prometheus.NewDesc("warmbox_boxes", "Boxes, by what they do: busy, idle, ready for somebody, starting.", []string{"state"}, nil)
	poolDesc   = prometheus.NewDesc("warmbox_pool_total", "Boxes that were wanted and could have stood ready: hit where one did, else miss.", []string{"result"}, nil)
	runsDesc   = prometheus.NewDesc("warmbox_runs", "Commands that run, with what others left behind.", nil, nil)
	endedDesc  = prometheus.NewDesc("warmbox_runs_ended_total", "Commands that are over, by how they ended.", []string{"status"}, nil)
	outputDesc = prometheus.NewDesc("warmbox_output_bytes_total", "What commands have printed.", nil, nil)
)

func (s *stock) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{boxesDesc, poolDesc, runsDesc, endedDesc, outputDesc} {
		descs <- d
	}
}

func (s *stock) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	counter := func(d *prometheus.Desc, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	stats := s.manager.Stats()
	gauge(boxesDesc, stats.Busy, "busy")
	gauge(boxesDesc, stats.Boxes-stats.Busy, "idle")
	gauge(boxesDesc, stats.Ready, "ready")
	gauge(boxesDesc, stats.Starting, "starting")
	counter(poolDesc, stats.Hits, "hit")
	counter(poolDesc, stats.Misses, "miss")
	gauge(runsDesc, stats.Runs)
	counter(outputDesc, stats.Printed)
	for status, n := range stats.Ended {
		counter(endedDesc, n, string(status))
	}
}

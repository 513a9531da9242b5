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

// metrics are the figures of a server, which any principal can read. No label has a value
// that a client chooses, so the number of series is bounded. nil metrics count nothing: on
// stdio no client can read them.
type metrics struct {
	registry  *prometheus.Registry
	calls     *prometheus.CounterVec
	took      *prometheus.HistogramVec
	summaries *prometheus.CounterVec
}

// latencies are the upper bounds of the buckets in seconds, from the shortest command to
// the longest wait of a client, each 2 to 2.5 times the one before.
var latencies = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 50, 120, 300, 600}

func newMetrics(m *sandbox.Manager) *metrics {
	x := &metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "warmbox_calls_total", Help: "Calls of tools, by result: ok or the error code.",
		}, []string{"tool", "code"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "warmbox_call_seconds", Help: "Duration of calls of tools.", Buckets: latencies,
		}, []string{"tool"}),
		summaries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "warmbox_summaries_total", Help: "Summaries of long outputs, by author.",
		}, []string{"by"}),
	}
	x.registry.MustRegister(x.calls, x.took, x.summaries, &managerCollector{m},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return x
}

func (x *metrics) handler() http.Handler {
	return promhttp.HandlerFor(x.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// count counts a call.
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

// A managerCollector collects the figures of a Manager when metrics are read.
type managerCollector struct{ manager *sandbox.Manager }

var (
	boxesDesc  = prometheus.NewDesc("warmbox_boxes", "Boxes, by state: busy, idle, ready in the pool, starting.", []string{"state"}, nil)
	poolDesc   = prometheus.NewDesc("warmbox_pool_total", "Boxes that the pool could provide, by whether it did: hit or miss.", []string{"result"}, nil)
	runsDesc   = prometheus.NewDesc("warmbox_runs", "Commands that run, and ended ones whose processes still do.", nil, nil)
	endedDesc  = prometheus.NewDesc("warmbox_runs_ended_total", "Commands that ended, by status.", []string{"status"}, nil)
	outputDesc = prometheus.NewDesc("warmbox_output_bytes_total", "Bytes that commands printed.", nil, nil)
)

func (c *managerCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{boxesDesc, poolDesc, runsDesc, endedDesc, outputDesc} {
		descs <- d
	}
}

func (c *managerCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	counter := func(d *prometheus.Desc, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	stats := c.manager.Stats()
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

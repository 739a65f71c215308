package monitor

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/coordd/coordd/internal/histogram"
	"github.com/coordd/coordd/server"
)

const (
	// maxScrapes bounds concurrent scrapes. One beyond it is refused.
	maxScrapes = 4
	// scrapePatience bounds the making of one.
	scrapePatience = 10 * time.Second
)

// Resource names a resource of a rate limiter.
type Resource struct{ Node, Path string }

// MaxNamedResources bounds the resources with metrics of their own.
const MaxNamedResources = 200

// Metrics is a handler that shows the server's metrics, and those of the process, to Prometheus. version is
// the program's. resources, which are different ones and MaxNamedResources at most, are shown by themselves
// where the counters of their nodes are detailed.
func Metrics(s *server.Server, version string, resources ...Resource) http.Handler {
	registry := prometheus.NewRegistry()
	figures := func() server.Figures {
		f := s.Figures()
		for _, r := range resources {
			s.ResourceFigures(&f, r.Node, r.Path)
		}
		return f
	}
	registry.MustRegister(newCollector(figures, version), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes,
		Timeout: scrapePatience})
}

// collector reads the figures of a server once for each scrape.
type collector struct {
	figures func() server.Figures
	version string
	all     []*prometheus.Desc // of metrics, in their order
	build   *prometheus.Desc
}

func newCollector(figures func() server.Figures, version string) *collector {
	c := &collector{figures: figures, version: version, build: buildInfo.describe()}
	for i := range metrics {
		c.all = append(c.all, metrics[i].describe())
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range c.all {
		out <- desc
	}
	out <- c.build
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	figures := c.figures()
	for i := range metrics {
		m, desc := &metrics[i], c.all[i]
		if m.kind == histogramKind {
			m.readings(&figures, func(r histogram.Reading, labels ...string) {
				out <- constHistogram(desc, r, labels)
			})
			continue
		}
		kind := prometheus.GaugeValue
		if m.kind == counter {
			kind = prometheus.CounterValue
		}
		m.read(&figures, func(value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
		})
	}
	out <- prometheus.MustNewConstMetric(c.build, prometheus.GaugeValue, 1, c.version)
}

func constHistogram(desc *prometheus.Desc, r histogram.Reading, labels []string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(histogram.Bounds))
	for i, bound := range histogram.Bounds {
		buckets[bound.Seconds()] = r.UpTo[i]
	}
	return prometheus.MustNewConstHistogram(desc, r.Count, r.Sum.Seconds(), buckets, labels...)
}

package monitor

import (
	"context"
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

// Semaphore names a semaphore.
type Semaphore struct{ Node, Name string }

// MaxNamed bounds the resources, and the semaphores, that have metrics of their own.
const MaxNamed = 200

// semaphorePatience bounds the turns that a scrape takes for semaphores: none of them is shown while there is no leader
// that lets turns pass.
const semaphorePatience = time.Second

// Options select what Metrics shows besides a server's figures.
type Options struct {
	Version string // of the program
	// Resources are different ones and MaxNamed at most. They are shown by themselves where the counters of their nodes
	// are detailed.
	Resources []Resource
	// Semaphores are different ones and MaxNamed at most.
	Semaphores []Semaphore
	// Certificates returns when the certificates of each file expire, by its role; nil: there are no such files.
	Certificates func() map[string]time.Time
}

// Metrics is a handler that shows the server's metrics, and those of the process, to Prometheus.
func Metrics(s *server.Server, o Options) http.Handler {
	registry := prometheus.NewRegistry()
	started := time.Now()
	read := func() *shown {
		f := &shown{Figures: s.Figures(), started: started}
		for _, r := range o.Resources {
			s.ResourceFigures(&f.Figures, r.Node, r.Path)
		}
		ctx, cancel := context.WithTimeout(context.Background(), semaphorePatience)
		defer cancel()
		for _, named := range o.Semaphores {
			s.SemaphoreFigures(ctx, &f.Figures, named.Node, named.Name)
		}
		if o.Certificates != nil {
			f.certificates = o.Certificates()
		}
		return f
	}
	registry.MustRegister(newCollector(read, o.Version), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes,
		Timeout: scrapePatience})
}

// collector reads the figures of a server once for each scrape.
type collector struct {
	figures func() *shown
	version string
	all     []*prometheus.Desc // of metrics, in their order
	build   *prometheus.Desc
}

func newCollector(figures func() *shown, version string) *collector {
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
			m.readings(figures, func(r histogram.Reading, labels ...string) {
				out <- constHistogram(desc, r, labels)
			})
			continue
		}
		kind := prometheus.GaugeValue
		if m.kind == counter {
			kind = prometheus.CounterValue
		}
		m.read(figures, func(value float64, labels ...string) {
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

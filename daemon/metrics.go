package daemon

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// newRegistry makes the process's metrics. The parts count with atomic counters of their own, which are read when somebody asks: a metric costs
// the hot paths nothing more.
func newRegistry(p *Process) *prometheus.Registry {
	r := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "klink_build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": p.version, "go": runtime.Version()},
	})
	info.Set(1)
	r.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collector{readNet, p}, collector{readSessions, p}, collector{readState, p}, collector{readServices, p}, collector{readHot, p})
	return r
}

// collector reads the counters of one part.
type collector struct {
	read func(*reading, *Process)
	p    *Process
}

// Describe implements prometheus.Collector: the metrics are not announced, because their labels come from the parts' own tables.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) { c.read(&reading{ch: ch}, c.p) }

// reading sends values. A metric has at most one label.
type reading struct{ ch chan<- prometheus.Metric }

func (r *reading) value(kind prometheus.ValueType, name, help string, v float64, label ...string) {
	var keys, values []string
	for i := 0; i+1 < len(label); i += 2 {
		keys, values = append(keys, label[i]), append(values, label[i+1])
	}
	r.ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, keys, nil), kind, v, values...)
}

func (r *reading) count(name, help string, v uint64, label ...string) {
	r.value(prometheus.CounterValue, name, help, float64(v), label...)
}

func (r *reading) gauge(name, help string, v float64, label ...string) {
	r.value(prometheus.GaugeValue, name, help, v, label...)
}

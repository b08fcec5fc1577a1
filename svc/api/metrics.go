package api

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics holds the server's own metrics. Without a registry they count all the same.
type metrics struct {
	requests *prometheus.CounterVec
	problems *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	others   [numProblems]prometheus.Counter
	batch    *routeMetrics // for the items of batches
}

// routeMetrics are the resolved handles of one route.
type routeMetrics struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
	inFlight prometheus.Gauge
	problems [numProblems]prometheus.Counter
}

func newMetrics(reg *prometheus.Registry) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "klink_api_requests_total", Help: "Requests to the HTTP API by route.",
		}, []string{"route"}),
		problems: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "klink_api_problems_total", Help: "Requests that were refused or failed, by route and problem code.",
		}, []string{"route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "klink_api_request_seconds", Help: "Time to answer a request by route.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 10},
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "klink_api_requests_in_flight", Help: "Requests being served.",
		}),
	}
	for i := range m.others {
		m.others[i] = m.problems.WithLabelValues("none", problems[i].Code)
	}
	m.batch = m.route("POST", "/v1/push/batch")
	if reg == nil {
		return m, nil
	}
	for _, c := range [...]prometheus.Collector{m.requests, m.problems, m.seconds, m.inFlight} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of the API: %w", err)
		}
	}
	return m, nil
}

// route resolves the handles of a route.
func (m *metrics) route(method, path string) *routeMetrics {
	name := method + " " + path
	r := &routeMetrics{requests: m.requests.WithLabelValues(name), seconds: m.seconds.WithLabelValues(name), inFlight: m.inFlight}
	for i := range r.problems {
		r.problems[i] = m.problems.WithLabelValues(name, problems[i].Code)
	}
	return r
}

func (m *routeMetrics) begin() time.Time {
	m.requests.Inc()
	m.inFlight.Inc()
	return time.Now()
}

func (m *routeMetrics) failed(p problem) { m.problems[p].Inc() }

func (m *routeMetrics) end(began time.Time) {
	m.inFlight.Dec()
	m.seconds.Observe(time.Since(began).Seconds())
}

// other counts a problem outside of the routes.
func (m *metrics) other(p problem) { m.others[p].Inc() }

//! All controllers of a registry, and the encoding of their metrics.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::controller::{ControllerMetrics, OTHERS};

/// The metrics of controllers by name. Encoded in order, so that two scrapes can be compared.
#[derive(Default)]
pub(super) struct Catalog {
    controllers: Mutex<Controllers>,
}

/// Reserves a controller's name until it is dropped; its metrics are removed then.
#[derive(Debug)]
pub(crate) struct NameReservation {
    name: Arc<str>,
    catalog: Arc<Catalog>,
}

/// One value of a controller.
type Value = fn(&ControllerMetrics) -> u64;

type Controllers = BTreeMap<Arc<str>, Arc<ControllerMetrics>>;

impl Catalog {
    /// Reserves a name; `None` if it is taken.
    pub(super) fn claim(
        self: &Arc<Self>,
        name: &Arc<str>,
    ) -> Option<(Arc<ControllerMetrics>, NameReservation)> {
        let mut controllers = self.lock();
        let Entry::Vacant(place) = controllers.entry(name.clone()) else { return None };
        let metrics = place.insert(Arc::new(ControllerMetrics::new())).clone();
        Some((metrics, NameReservation { name: name.clone(), catalog: self.clone() }))
    }

    fn lock(&self) -> MutexGuard<'_, Controllers> {
        self.controllers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NameReservation {
    fn drop(&mut self) {
        self.catalog.lock().remove(&self.name);
    }
}

impl Collector for Catalog {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let controllers = self.lock().clone();
        let mut writer = Writer { encoder, controllers: &controllers };
        writer.controllers()?;
        writer.queues()
    }
}

struct Writer<'a, 'c> {
    encoder: DescriptorEncoder<'a>,
    controllers: &'c Controllers,
}

impl Writer<'_, '_> {
    fn controllers(&mut self) -> fmt::Result {
        self.family(
            "controller_runtime_reconcile",
            "Total number of reconciliations per controller",
            MetricType::Counter,
            |name, metrics, family| {
                for (result, count) in [
                    ("error", metrics.failures.get()),
                    ("requeue", metrics.requeues.get()),
                    ("requeue_after", metrics.requeues_after.get()),
                    ("success", metrics.successes()),
                ] {
                    let labels = [("controller", name), ("result", result)];
                    family.counter(&labels, count)?;
                }
                Ok(())
            },
        )?;
        let counters: [(&str, &str, Value); 4] = [
            ("reconcile_errors", "Total number of reconciliation errors per controller", |m| m.errors.get()),
            (
                "terminal_reconcile_errors",
                "Total number of terminal reconciliation errors per controller",
                |m| m.terminal_errors.get(),
            ),
            ("reconcile_panics", "Total number of reconciliation panics per controller", |m| m.panics.get()),
            ("reconcile_timeouts", "Total number of reconciliation timeouts per controller", |m| {
                m.timeouts.get()
            }),
        ];
        for (metric, help, value) in counters {
            let metric = format!("controller_runtime_{metric}");
            self.family(&metric, help, MetricType::Counter, |name, metrics, family| {
                family.counter(&[("controller", name)], value(metrics))
            })?;
        }
        self.family(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation per controller",
            MetricType::Histogram,
            |name, metrics, family| {
                family.of(&[("controller", name)], |encoder| metrics.time().encode(encoder))
            },
        )?;
        self.family(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciles per controller",
            MetricType::Gauge,
            |name, metrics, family| family.gauge(&[("controller", name)], metrics.concurrency.get()),
        )?;
        self.family(
            "controller_runtime_active_workers",
            "Number of currently used workers per controller",
            MetricType::Gauge,
            |name, metrics, family| {
                family.gauge(&[("controller", name)], i64::try_from(metrics.active()).unwrap_or(i64::MAX))
            },
        )?;
        self.family(
            "bowline_reconcile_triggers",
            "Total number of triggers of reconciles per controller, source and cause",
            MetricType::Counter,
            |name, metrics, family| {
                for (source, metrics) in metrics.sources() {
                    for (cause, count) in metrics.triggers() {
                        let labels = [("controller", name), ("source", &source), ("cause", cause.as_str())];
                        family.counter(&labels, count)?;
                    }
                }
                Ok(())
            },
        )?;
        self.bowlines()
    }

    /// Metrics without a counterpart in controller-runtime.
    fn bowlines(&mut self) -> fmt::Result {
        self.family(
            "bowline_source_panics",
            "Total number of panics of a source, or of its predicates or handler",
            MetricType::Counter,
            |name, metrics, family| {
                for (source, metrics) in metrics.sources() {
                    family.counter(&[("controller", name), ("source", &source)], metrics.panics.get())?;
                }
                Ok(())
            },
        )?;
        self.family(
            "bowline_source_errors",
            "Errors that the async handler of a source returned",
            MetricType::Counter,
            |name, metrics, family| {
                for (source, metrics) in metrics.sources() {
                    family.counter(&[("controller", name), ("source", &source)], metrics.errors.get())?;
                }
                Ok(())
            },
        )?;
        self.family(
            "bowline_source_unhandled_changes",
            "Total number of changes dropped because a predicate or handler failed on every attempt",
            MetricType::Counter,
            |name, metrics, family| {
                for (source, metrics) in metrics.sources() {
                    family.counter(&[("controller", name), ("source", &source)], metrics.unhandled.get())?;
                }
                Ok(())
            },
        )?;
        self.family(
            "bowline_controller_running",
            "Whether the controller was started and has not ended since",
            MetricType::Gauge,
            |name, metrics, family| family.gauge(&[("controller", name)], metrics.running.get()),
        )?;
        self.family(
            "bowline_controller_ready",
            "Whether all caches of the controller have synced and it reconciles",
            MetricType::Gauge,
            |name, metrics, family| family.gauge(&[("controller", name)], metrics.ready.get()),
        )
    }

    fn queues(&mut self) -> fmt::Result {
        self.family(
            "workqueue_depth",
            "Current depth of workqueue",
            MetricType::Gauge,
            |name, metrics, family| {
                for (priority, depth) in metrics.queue.depth() {
                    let priority = priority.map_or_else(|| OTHERS.to_owned(), |p| p.to_string());
                    let labels = [("name", name), ("controller", name), ("priority", &priority)];
                    family.gauge(&labels, depth)?;
                }
                Ok(())
            },
        )?;
        self.family(
            "workqueue_adds",
            "Total number of adds handled by workqueue",
            MetricType::Counter,
            |name, metrics, family| family.counter(&queue(name), metrics.queue.adds.get()),
        )?;
        self.family(
            "workqueue_retries",
            "Total number of retries handled by workqueue",
            MetricType::Counter,
            |name, metrics, family| family.counter(&queue(name), metrics.queue.retries.get()),
        )?;
        self.family(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
            MetricType::Histogram,
            |name, metrics, family| family.of(&queue(name), |encoder| metrics.queue.waited.encode(encoder)),
        )?;
        self.family(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes",
            MetricType::Histogram,
            |name, metrics, family| family.of(&queue(name), |encoder| metrics.queue.worked.encode(encoder)),
        )?;
        self.family(
            "workqueue_unfinished_work_seconds",
            "How many seconds of work that is in progress and hasn't been observed by work_duration: large values \
             indicate stuck workers",
            MetricType::Gauge,
            |name, metrics, family| {
                family.seconds(&queue(name), metrics.queue.in_progress().unfinished_work.as_secs_f64())
            },
        )?;
        self.family(
            "workqueue_longest_running_processor_seconds",
            "How many seconds has the longest running processor for workqueue been running",
            MetricType::Gauge,
            |name, metrics, family| {
                family.seconds(&queue(name), metrics.queue.in_progress().longest_running.as_secs_f64())
            },
        )
    }

    fn family(
        &mut self,
        metric: &str,
        help: &str,
        kind: MetricType,
        mut write: impl FnMut(&str, &ControllerMetrics, &mut Family<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let encoder = self.encoder.encode_descriptor(metric, help, None, kind)?;
        let mut family = Family { encoder };
        for (name, metrics) in self.controllers {
            write(name, metrics, &mut family)?;
        }
        Ok(())
    }
}

fn queue(name: &str) -> [(&'static str, &str); 2] {
    [("name", name), ("controller", name)]
}

/// One metric with all its labels.
struct Family<'a> {
    encoder: MetricEncoder<'a>,
}

impl Family<'_> {
    fn of(
        &mut self,
        labels: &impl EncodeLabelSet,
        write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        write(&mut self.encoder.encode_family(labels)?)
    }

    fn counter(&mut self, labels: &impl EncodeLabelSet, value: u64) -> fmt::Result {
        self.of(labels, |encoder| encoder.encode_counter::<NoLabelSet, _, u64>(&value, None))
    }

    fn gauge(&mut self, labels: &impl EncodeLabelSet, value: i64) -> fmt::Result {
        self.of(labels, |encoder| encoder.encode_gauge(&value))
    }

    fn seconds(&mut self, labels: &impl EncodeLabelSet, value: f64) -> fmt::Result {
        self.of(labels, |encoder| encoder.encode_gauge(&value))
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").finish_non_exhaustive()
    }
}

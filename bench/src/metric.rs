//! Metrics of several scenarios: the same work has the same name everywhere.

use crate::report::Metric;

pub(crate) const CPU_S: Metric = Metric { name: "cpu_s", unit: "s" };
pub(crate) const WALL_S: Metric = Metric { name: "wall_s", unit: "s" };
pub(crate) const RSS_SETTLED_MIB: Metric = Metric { name: "rss_settled_mib", unit: "MiB" };
pub(crate) const RSS_PEAK_MIB: Metric = Metric { name: "rss_peak_mib", unit: "MiB" };

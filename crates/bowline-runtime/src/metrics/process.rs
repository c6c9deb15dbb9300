//! Metrics of this process from the operating system, with the names of Prometheus's own clients. Read at each scrape;
//! absent on systems without `/proc`.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The unit of times in `/proc`: a hundredth of a second for all programs on Linux, whatever the kernel's own tick.
const TICKS: f64 = 100.0;

/// Collects the metrics of this process.
#[derive(Debug)]
pub(super) struct ProcessCollector;

/// The values; `None` if not available.
#[derive(Debug, Default, PartialEq)]
struct Process {
    cpu: Option<f64>,
    start: Option<f64>,
    resident: Option<f64>,
    virtual_size: Option<f64>,
    virtual_limit: Option<f64>,
    files: Option<f64>,
    files_limit: Option<f64>,
    received: Option<f64>,
    transmitted: Option<f64>,
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let process = Process::look();
        for (name, help, kind, value) in [
            (
                "process_cpu_seconds",
                "Total user and system CPU time spent in seconds",
                MetricType::Counter,
                process.cpu,
            ),
            (
                "process_max_fds",
                "Maximum number of open file descriptors",
                MetricType::Gauge,
                process.files_limit,
            ),
            (
                "process_network_receive_bytes",
                "Number of bytes received by the process over the network",
                MetricType::Counter,
                process.received,
            ),
            (
                "process_network_transmit_bytes",
                "Number of bytes sent by the process over the network",
                MetricType::Counter,
                process.transmitted,
            ),
            ("process_open_fds", "Number of open file descriptors", MetricType::Gauge, process.files),
            (
                "process_resident_memory_bytes",
                "Resident memory size in bytes",
                MetricType::Gauge,
                process.resident,
            ),
            (
                "process_start_time_seconds",
                "Start time of the process since unix epoch in seconds",
                MetricType::Gauge,
                process.start,
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes",
                MetricType::Gauge,
                process.virtual_size,
            ),
            (
                "process_virtual_memory_max_bytes",
                "Maximum amount of virtual memory available in bytes",
                MetricType::Gauge,
                process.virtual_limit,
            ),
        ] {
            let Some(value) = value else { continue };
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            match kind {
                MetricType::Counter => metric.encode_counter::<NoLabelSet, _, f64>(&value, None)?,
                _ => metric.encode_gauge(&value)?,
            }
        }
        Ok(())
    }
}

impl Process {
    fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let stat = read("/proc/self/stat");
        let [cpu, start] = times(&stat, &read("/proc/stat"));
        let status = read("/proc/self/status");
        let limits = read("/proc/self/limits");
        let network = read("/proc/self/net/netstat");
        let files = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
        Self {
            cpu,
            start,
            resident: kibibytes(&status, "VmRSS:"),
            virtual_size: kibibytes(&status, "VmSize:"),
            virtual_limit: soft_limit(&limits, "Max address space"),
            #[expect(clippy::cast_precision_loss, reason = "real values are far below 2^53")]
            files: files.map(|files| files as f64),
            files_limit: soft_limit(&limits, "Max open files"),
            received: octets(&network, "InOctets"),
            transmitted: octets(&network, "OutOctets"),
        }
    }
}

/// Processor time in seconds and the start time of the process, from its `stat` and that of the system.
fn times(stat: &str, system: &str) -> [Option<f64>; 2] {
    // The second field is the program's name, which may contain spaces and brackets. The third follows the last
    // bracket.
    let fields: Vec<f64> = match stat.rsplit_once(") ") {
        Some((_, fields)) => {
            fields.split(' ').map(|field| field.trim().parse().unwrap_or(f64::NAN)).collect()
        }
        None => Vec::new(),
    };
    let field = |number: usize| fields.get(number - 3).copied().filter(|value| !value.is_nan());
    let cpu = field(14).zip(field(15)).map(|(user, system)| (user + system) / TICKS);
    let boot = system.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok());
    [cpu, field(22).zip(boot).map(|(start, boot)| boot + start / TICKS)]
}

fn kibibytes(status: &str, name: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix(" kB")?.parse::<f64>().ok().map(|value| value * 1024.0)
}

/// The current soft limit; `unlimited` is the largest number, as in Go's programs.
fn soft_limit(limits: &str, name: &str) -> Option<f64> {
    let value = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match value.split_whitespace().next()? {
        "unlimited" => Some(2_f64.powi(64)),
        value => value.parse().ok(),
    }
}

/// A number from the second pair of lines in `netstat`: the first has the names, the second the values.
fn octets(network: &str, name: &str) -> Option<f64> {
    let mut lines = network.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split(' ').position(|it| it == name)?;
    values.split(' ').nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_proc() {
        let stat = "7 (a ) (b) S 1 2 3 4 5 6 7 8 9 10 250 150 0 0 20 0 1 0 6000 1000 5";
        assert_eq!(times(stat, "cpu 1 2\nbtime 1700000000\n"), [Some(4.0), Some(1_700_000_060.0)]);
        assert_eq!(times("", ""), [None, None]);
        assert_eq!(times("7 (a) S 1", "btime x\n"), [None, None]);
        let status = "VmSize:\t    2048 kB\nVmRSS:\t       4 kB\n";
        assert_eq!(kibibytes(status, "VmRSS:"), Some(4096.0));
        assert_eq!(kibibytes(status, "VmPeak:"), None);
        let limits = "Limit  Soft Limit  Hard Limit  Units\n\
                      Max open files            1024                 524288               files     \n\
                      Max address space         unlimited            unlimited            bytes     \n";
        assert_eq!(soft_limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(soft_limit(limits, "Max address space"), Some(18_446_744_073_709_551_616.0));
        let network = "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 70 80\n";
        assert_eq!([octets(network, "InOctets"), octets(network, "OutOctets")], [Some(70.0), Some(80.0)]);
        assert_eq!(octets("IpExt: InOctets\n", "InOctets"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_all_metrics() {
        let Process { cpu, start, resident, virtual_size, virtual_limit, files, files_limit, .. } =
            Process::look();
        let all = [cpu, start, resident, virtual_size, virtual_limit, files, files_limit];
        assert!(all.iter().all(Option::is_some), "{all:?}");
        assert!(resident > Some(1e6) && virtual_size > resident && files > Some(2.0), "{all:?}");
    }
}

//! Figures of this process from the kernel, for metrics.

use std::fs;

/// Figures of a process; `None` where the kernel does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Process {
    pub(crate) open_descriptors: Option<usize>,
    pub(crate) descriptors_max: Option<u64>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) virtual_bytes: Option<u64>,
    pub(crate) cpu_ticks: Option<u64>,
    pub(crate) ticks_per_second: u64,
    pub(crate) threads: Option<u64>,
}

impl Process {
    /// This process now (`proc(5)`).
    pub(crate) fn own() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The name in parentheses may have blanks and parentheses in it.
        let fields: Vec<u64> = stat
            .rsplit_once(')')
            .map(|(_, rest)| {
                rest.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect()
            })
            .unwrap_or_default();
        // After pid, name and state, field N of the manual is at N - 4.
        let field = |number: usize| fields.get(number - 4).copied();
        let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
        Self {
            open_descriptors: fs::read_dir("/proc/self/fd").ok().map(Iterator::count),
            descriptors_max: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            resident_bytes: field(24).map(|pages| pages * page),
            virtual_bytes: field(23),
            cpu_ticks: field(14).zip(field(15)).map(|(user, system)| user + system),
            ticks_per_second: rustix::param::clock_ticks_per_second(),
            threads: field(20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_threads_and_descriptors() {
        let own = Process::own();
        assert!(own.resident_bytes.unwrap() > 1 << 20, "{own:?}");
        assert!(own.virtual_bytes.unwrap() >= own.resident_bytes.unwrap(), "{own:?}");
        assert!((1..10_000).contains(&own.threads.unwrap()), "{own:?}");
        assert!((3..100_000).contains(&own.open_descriptors.unwrap()), "{own:?}");
        assert!(own.cpu_ticks.is_some(), "{own:?}");
    }
}

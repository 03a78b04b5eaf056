//! Processor time.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;
use std::{fs, io};

use rustix::time::ClockId;

use crate::error::Error;

fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// User and system time of a process and its children, including ended ones. A server may have a process for
/// each client. The resolution is the kernel's tick (10 ms).
pub(crate) fn of_process(pid: u32) -> Result<Duration, Error> {
    let stats = family(pid).map_err(Error::io("read /proc for the server's CPU"))?;
    // utime, stime, and those of reaped children.
    let ticks = stats.iter().map(|stat| number(stat, 11..15)).sum::<u64>();
    Ok(Duration::from_nanos(ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second())))
}

/// The `stat` after the name, of a process and all its descendants.
fn family(pid: u32) -> io::Result<Vec<String>> {
    let mut all = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process may end between the listing and this read.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The name, in parentheses, may contain any character (proc(5)).
        let stat = stat.rsplit_once(')').map_or("", |(_, rest)| rest).to_owned();
        all.insert(pid, stat);
    }
    let no_process = || io::Error::new(io::ErrorKind::NotFound, format!("there is no process {pid}"));
    let mut found = vec![(pid, all.remove(&pid).ok_or_else(no_process)?)];
    let mut at = 0;
    while let Some(&(parent, _)) = found.get(at) {
        // The parent is the second field behind the name.
        found.extend(all.extract_if(|_, stat| number(stat, 1..2) == u64::from(parent)));
        at += 1;
    }
    Ok(found.into_iter().map(|(_, stat)| stat).collect())
}

/// Sums fields of a `stat`, counted after the name.
fn number(stat: &str, fields: Range<usize>) -> u64 {
    let fields = stat.split_ascii_whitespace().skip(fields.start).take(fields.len());
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

#[derive(Debug, Default)]
pub(crate) struct WindowCpu {
    start: Option<Duration>,
    end: Option<Duration>,
}

impl WindowCpu {
    #[inline]
    pub(crate) fn update(&mut self, now: u64, window: (u64, u64)) {
        if self.end.is_some() || now < window.0 {
            return;
        }
        if self.start.is_none() {
            self.start = Some(thread_cpu_time());
        }
        if now >= window.1 {
            self.end = Some(thread_cpu_time());
        }
    }

    pub(crate) fn used(&self) -> Duration {
        let end = self.end.unwrap_or_else(thread_cpu_time);
        self.start.map_or(Duration::ZERO, |start| end.saturating_sub(start))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn work_shows_in_both_clocks() {
        let (thread, process) = (thread_cpu_time(), of_process(std::process::id()).unwrap());
        let mut sum = 0u64;
        while thread_cpu_time() - thread < Duration::from_millis(60) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(of_process(std::process::id()).unwrap() - process >= Duration::from_millis(30));
        assert!(of_process(u32::MAX).is_err());
    }

    #[test]
    fn work_of_children_counts_while_they_run_and_after() {
        let before = of_process(std::process::id()).unwrap();
        let burn = "n=0; while [ $n -lt 300 ]; do date +%s%N >/dev/null; n=$((n + 1)); done; read -r _";
        let mut child = std::process::Command::new("sh");
        let child = child.args(["-c", burn]).stdin(std::process::Stdio::piped());
        let mut child = child.spawn().unwrap();
        let patience = Instant::now() + Duration::from_secs(20);
        let while_it_runs = loop {
            let used = of_process(std::process::id()).unwrap();
            if used - before >= Duration::from_millis(20) {
                break used;
            }
            assert!(Instant::now() < patience, "{:?}", used - before);
            std::thread::sleep(Duration::from_millis(10));
        };
        drop(child.stdin.take());
        child.wait().unwrap();
        let after = of_process(std::process::id()).unwrap();
        assert!(after >= while_it_runs, "{after:?} {while_it_runs:?}");
    }
}

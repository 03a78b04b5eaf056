//! The load of a volume of a running service, from its counters.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use api_client::Samples;
use api_client::model::ConnectedClient as Connected;
use bench::workload::{Counters, Observed, sampled};
use clap::Args;
use envelope::{Access, Bytes, parse_duration};

use crate::manage::ServiceArgs;

/// The volume to watch.
#[derive(Debug, Args)]
#[command(next_help_heading = "Or a measured load")]
pub(super) struct WatchFlags {
    /// Watch this volume of a running service (--data, --url)
    #[arg(long, value_name = "NAME", conflicts_with = "from", add = crate::manage::names::volumes())]
    from_volume: Option<String>,
    /// Time to watch the volume; the peak is that of a tenth of the time
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s", requires = "from_volume")]
    watch: Duration,
    #[command(flatten)]
    pub(super) service: ServiceArgs,
}

/// The number of intervals that the time is divided into.
const INTERVALS: u32 = 10;

impl WatchFlags {
    /// The load of the watched volume, and the bytes stored in it; `None` without `--from-volume`.
    pub(super) fn observe(&self, pattern: Option<Access>) -> anyhow::Result<Option<(Observed, Bytes)>> {
        let Some(volume) = &self.from_volume else { return Ok(None) };
        let session = self.service.open()?;
        let begin = Instant::now();
        let mut counters = Vec::new();
        for interval in 0..=INTERVALS {
            thread::sleep((self.watch / INTERVALS * interval).saturating_sub(begin.elapsed()));
            let samples = session.ask(api_client::Client::metrics)?;
            let clients = session.ask(api_client::Client::clients)?;
            let here = |client: &&Connected| client.volumes.iter().any(|used| used.name == *volume);
            let clients = u32::try_from(clients.iter().filter(here).count()).ok();
            let Some(now) = counted(&samples, volume, begin.elapsed()) else {
                let names = session.ask(|client| client.volumes())?;
                let names: Vec<String> = names.into_iter().map(|volume| volume.name).collect();
                bail!("the service has no volume {volume}; allowed: {}", names.join(", "));
            };
            counters.push(Counters { clients, ..now });
        }
        let stored = Bytes(session.ask(|client| client.stats(volume))?.used_bytes);
        Ok(Some((sampled(&format!("the volume {volume}"), &counters, pattern)?, stored)))
    }
}

/// The counters of a volume; `None` if the service does not have the volume.
fn counted(samples: &Samples, volume: &str, at: Duration) -> Option<Counters> {
    let own = [("volume", volume)];
    samples.of("plimsoll_volume_info", &own).next()?;
    let direct = |direction| [own[0], ("direction", direction)];
    let count = |name: &str, direction| samples.count(name, &direct(direction)).unwrap_or_default();
    let seconds = |direction| {
        samples.sum("plimsoll_volume_operation_seconds_sum", &direct(direction)).unwrap_or_default()
    };
    let connections = samples.count("plimsoll_volume_connections", &own);
    Some(Counters {
        at_s: at.as_secs_f64(),
        reads: count("plimsoll_volume_operations_total", "read"),
        read_bytes: count("plimsoll_volume_bytes_total", "read"),
        writes: count("plimsoll_volume_operations_total", "write"),
        written_bytes: count("plimsoll_volume_bytes_total", "write"),
        others: count("plimsoll_volume_operations_total", "other"),
        us: u64::try_from(Duration::from_secs_f64(seconds("read") + seconds("write")).as_micros()).ok(),
        clients: None,
        connections: connections.and_then(|count| u32::try_from(count).ok()),
    })
}

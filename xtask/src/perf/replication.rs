//! `cargo xtask perf replication`: the lag of a destination behind a slow link, and the time until it takes over.
//!
//! Two services on this machine replicate a volume through a link of limited speed, while a client changes the source.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::snapshots::volume::make_volume;
use crate::dist;
use crate::ledger::client::{Client, Handle, How, MountResult, Stable};
use crate::managed::Managed;
use crate::process;
use crate::random::Random;
use crate::server::{Endpoint, free_port};

const PIECE: usize = 64 << 10;
const SAMPLE: Duration = Duration::from_millis(500);
const TAKE_OVER_MAX: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask perf replication
  cargo xtask perf replication --rate 1 --interval 4 --transfers 3
  cargo xtask perf replication --directory /mnt/xfs")]
pub(super) struct Args {
    /// Server to measure; by default this tree's, built by `cargo xtask dist`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Speed of the link in MiB/s.
    #[arg(long, default_value_t = 8)]
    rate: u32,
    /// Changes of the source, in percent of the link.
    #[arg(long, default_value_t = 80)]
    changes: u32,
    /// Seconds between two transfers.
    #[arg(long, default_value_t = 20)]
    interval: u64,
    /// Number of transfers.
    #[arg(long, default_value_t = 6)]
    transfers: u32,
    /// Directory for the data of both services; it selects the file system.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let numbers = [args.rate, args.changes, args.transfers].map(u64::from);
    ensure!(args.interval > 0 && !numbers.contains(&0), "all numbers must be positive");
    let binary = args.binary.clone().map_or_else(dist::program, Ok)?;
    let parent = args.directory.clone().unwrap_or_else(process::target_dir);
    let work = parent.join("perf-replication");
    process::empty_dir(&work)?;
    let pair = Pair::start(&binary, &work, args)?;
    let mut source = Changes::begin(&pair.source, args)?;
    pair.replicate()?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let changed = scope.spawn(|| source.run(&is_over));
        let measured = measure(&pair, args);
        is_over.store(true, Ordering::Relaxed);
        let changed = changed.join().map_err(|_| anyhow::anyhow!("the load panicked"))?;
        measured.and(changed)
    })?;
    pair.destination.stop()?;
    pair.source.stop()?;
    Ok(std::fs::remove_dir_all(&work)?)
}

/// The services of both volumes.
struct Pair {
    source: Managed,
    destination: Managed,
}

impl Pair {
    fn start(binary: &Path, work: &Path, args: &Args) -> anyhow::Result<Self> {
        let listen = free_port()?;
        let start = |name: &str, options: &[&str]| -> anyhow::Result<Managed> {
            let home = work.join(name);
            std::fs::create_dir_all(&home)?;
            let options = [&["--snapshots", "copy"], options].concat();
            let service = Managed::start_with(binary, &home, &[], &options)?;
            service.manage("pool create own --level plimsoll/unlimited --size 24GiB")?;
            make_volume(&service, "v1", "own", "8GiB")?;
            Ok(service)
        };
        let source = start("source", &["--replication-listen", &format!("127.0.0.1:{listen}")])?;
        let destination = start("destination", &[])?;
        let link = slow_link(listen, u64::from(args.rate) << 20)?;
        let key = |service: &Managed| Ok::<_, anyhow::Error>(service.manage("peer key")?.trim().to_owned());
        source.manage(&format!("peer create destination --key {}", key(&destination)?))?;
        source.manage("replication authorize v1 --peer destination")?;
        destination
            .manage(&format!("peer create source --key {} --address 127.0.0.1:{link}", key(&source)?))?;
        Ok(Self { source, destination })
    }

    /// Makes the first transfer.
    fn replicate(&self) -> anyhow::Result<()> {
        self.destination.manage("replication create v1 --source v1 --peer source").map(drop)
    }

    fn show(&self) -> anyhow::Result<serde_json::Value> {
        Ok(serde_json::from_str(&self.destination.manage("replication show v1 --json")?)?)
    }
}

/// Passes connections on; what comes back has this speed. Returns the port.
fn slow_link(to: u16, bytes_per_s: u64) -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || pass_on(client, to, bytes_per_s));
        }
    });
    Ok(port)
}

fn pass_on(mut client: TcpStream, to: u16, bytes_per_s: u64) -> io::Result<()> {
    let mut server = TcpStream::connect(("127.0.0.1", to))?;
    let (mut up, mut into) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        _ = io::copy(&mut up, &mut into);
        _ = into.shutdown(Shutdown::Write);
    });
    let (mut due, mut bytes) = (Instant::now(), vec![0; PIECE]);
    loop {
        let len = server.read(&mut bytes)?;
        if len == 0 {
            return client.shutdown(Shutdown::Both);
        }
        // An idle link saves nothing up.
        due = due.max(Instant::now()) + Duration::from_secs_f64(len as f64 / bytes_per_s as f64);
        sleep(due.saturating_duration_since(Instant::now()));
        client.write_all(&bytes[..len])?;
    }
}

/// A client that overwrites a file at a steady speed, round and round.
struct Changes {
    client: Client,
    file: Handle,
    random: Random,
    pieces_per_s: f64,
    /// Pieces of the file: the changes of two intervals, so that no transfer finds a piece changed twice.
    pieces: u64,
    written: u64,
}

impl Changes {
    fn begin(service: &Managed, args: &Args) -> anyhow::Result<Self> {
        let MountResult { mut client, root } = Client::mount(&Endpoint::loopback(service.port, "/v1"))?;
        let file = client.create(&root, "data", How::Unchecked(0o666))?;
        let bytes_per_s = (u64::from(args.rate) << 20) * u64::from(args.changes) / 100;
        let pieces = (bytes_per_s * args.interval * 2).div_ceil(PIECE as u64);
        let pieces_per_s = bytes_per_s as f64 / PIECE as f64;
        let mut changes = Self { client, file, random: Random::new(1), pieces_per_s, pieces, written: 0 };
        changes.write()?;
        Ok(changes)
    }

    /// Writes the next piece. Its bytes do not compress.
    fn write(&mut self) -> anyhow::Result<()> {
        let data: Vec<u8> = (0..PIECE / 8).flat_map(|_| self.random.next().to_be_bytes()).collect();
        let offset = self.written % self.pieces * PIECE as u64;
        self.client.write(&self.file, offset, &data, Stable::Unstable).context("WRITE")?;
        self.written += 1;
        Ok(())
    }

    fn run(&mut self, is_over: &AtomicBool) -> anyhow::Result<()> {
        let (began, before) = (Instant::now(), self.written);
        while !is_over.load(Ordering::Relaxed) {
            let due = began.elapsed().as_secs_f64() * self.pieces_per_s;
            if ((self.written - before) as f64) < due {
                self.write()?;
            } else {
                sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }
}

fn measure(pair: &Pair, args: &Args) -> anyhow::Result<()> {
    let MountResult { mut client, root } = Client::mount(&Endpoint::loopback(pair.destination.port, "/v1"))?;
    let file = client.lookup(&root, "data")?;
    let interval = Duration::from_secs(args.interval);
    let (began, mut lag_max, mut begun, mut missed) = (Instant::now(), 0, 0, 0);
    while begun < args.transfers {
        let is_due = began.elapsed() >= interval * (begun + missed);
        let shown = pair.show()?;
        lag_max = lag_max.max(shown["lag_seconds"].as_u64().context("a destination without a lag")?);
        match shown["state"].as_str() {
            Some("MIRRORED") if is_due => {
                pair.destination.manage("replication sync v1 --no-wait")?;
                begun += 1;
            }
            Some("TRANSFERRING") if began.elapsed() >= interval * (begun + missed + 1) => missed += 1,
            _ => sleep(SAMPLE),
        }
    }
    let shown = pair.show()?;
    println!(
        "  lag at most {lag_max} s (aim: below {}), {begun} transfers, {missed} missed; one of {} bytes took {} s",
        2 * args.interval,
        shown["last_transfer_bytes"],
        shown["last_transfer_seconds"],
    );
    // Amid the last transfer the source fails.
    sleep(interval / 4);
    let broken = Instant::now();
    pair.destination.manage("replication break v1 --force")?;
    while let Err(error) = client.write(&file, 0, b"own", Stable::FileSync) {
        ensure!(broken.elapsed() < TAKE_OVER_MAX, "no client can write: {error}");
        sleep(Duration::from_millis(10));
    }
    println!(
        "  a client that stayed mounted wrote {:.2} s after the break began (aim: below {})",
        broken.elapsed().as_secs_f64(),
        TAKE_OVER_MAX.as_secs()
    );
    Ok(())
}

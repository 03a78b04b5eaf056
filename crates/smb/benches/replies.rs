//! The server's cost of calls on one connection, on a file in memory, one by one and in batches:
//! `cargo bench -p smb --bench replies`.
//!
//! With the number of a row and a number of calls it runs only those. Under `valgrind --tool=callgrind
//! --separate-threads=yes` this counts the instructions of the event loop's thread; the difference between two runs
//! over the difference of calls is the cost of a call.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]
#![allow(dead_code, unused_imports, reason = "tests want more of their rig")]

#[path = "../tests/protocol/rig/mod.rs"]
mod rig;

use rig::{Client, Offer, Opening, Rig};
use smb_wire::FileId;
use smb_wire::classes::FileClass;
use smb_wire::header::Command;
use smb_wire::info::InfoType;
use smb_wire::negotiate::SigningAlgorithm;
use std::fs;

const ROUNDS: usize = 9;
/// Bytes of a READ.
const BLOCK: u32 = 64 << 10;
const CREDIT_BYTES: usize = 64 << 10;

/// A benchmark.
struct Row {
    title: &'static str,
    signing: SigningAlgorithm,
    command: Command,
    /// Bytes of a WRITE.
    written: usize,
    /// Calls sent together.
    depth: u32,
    /// Calls of a round.
    calls: u32,
}

const fn row(
    title: &'static str,
    signing: SigningAlgorithm,
    command: Command,
    depth: u32,
    calls: u32,
) -> Row {
    Row { title, signing, command, written: 0, depth, calls }
}

/// A row with WRITEs of this size.
const fn writing(written: usize, row: Row) -> Row {
    Row { written, ..row }
}

const GMAC: SigningAlgorithm = SigningAlgorithm::AES_GMAC;
const CMAC: SigningAlgorithm = SigningAlgorithm::AES_CMAC;
const ROWS: [Row; 7] = [
    row("QUERY_INFO, GMAC, 16 at a time", GMAC, Command::QUERY_INFO, 16, 16_000),
    row("READ 64K, GMAC, one by one", GMAC, Command::READ, 1, 1000),
    row("READ 64K, GMAC, 8 at a time", GMAC, Command::READ, 8, 1000),
    row("READ 64K, CMAC, one by one", CMAC, Command::READ, 1, 1000),
    row("READ 64K, CMAC, 8 at a time", CMAC, Command::READ, 8, 1000),
    writing(4 << 10, row("WRITE 4K, GMAC, 16 at a time", GMAC, Command::WRITE, 16, 4000)),
    writing(1 << 20, row("WRITE 1M, GMAC, 4 at a time", GMAC, Command::WRITE, 4, 100)),
];

/// Calls on one connection.
struct Load<'r> {
    row: &'r Row,
    client: Client,
    file: FileId,
}

impl<'r> Load<'r> {
    fn new(rig: &Rig, row: &'r Row) -> Self {
        let mut client = rig.alice_with(&Offer { signing: vec![row.signing], ..Offer::default() });
        client.put("file", &vec![7; 64 << 10]);
        let file = client.open("file", Opening::default());
        let mut load = Self { row, client, file };
        // Checks the replies once, outside of the measurement.
        load.send();
        for _ in 0..load.row.depth {
            let reply = load.client.reply();
            assert!(!reply.status().is_error(), "{reply:?}");
        }
        load
    }

    fn send(&mut self) {
        let mut frames = Vec::new();
        for _ in 0..self.row.depth {
            let request = match self.row.command {
                Command::READ => self.client.signed(Command::READ, &rig::read(self.file, 0, BLOCK)),
                Command::WRITE => self.write(),
                command => self
                    .client
                    .signed(command, &rig::query(InfoType::FILE, self.file, FileClass::ALL.0, 4096)),
            };
            let length = u32::try_from(request.len()).expect("a short request");
            frames.extend_from_slice(&length.to_be_bytes());
            frames.extend(request);
        }
        self.client.send_raw(&frames);
    }

    fn write(&mut self) -> Vec<u8> {
        let charge = self.row.written.div_ceil(CREDIT_BYTES);
        let header = self.client.header(Command::WRITE, u16::try_from(charge).expect("few credits"));
        let data = vec![7; self.row.written];
        let mut request = rig::message(&header, &rig::write(self.file, 0, &data));
        self.client.sign(&mut request);
        request
    }

    /// Makes calls and returns the server's CPU time per call, in microseconds.
    fn run(&mut self, calls: u32) -> f64 {
        let before = server_ns();
        for _ in 0..calls / self.row.depth {
            self.send();
            for _ in 0..self.row.depth {
                self.client.receive().expect("a reply");
            }
        }
        (server_ns() - before) / f64::from(calls) / 1000.0
    }
}

/// CPU time of all threads but this one.
fn server_ns() -> f64 {
    let own = fs::canonicalize("/proc/thread-self").expect("procfs");
    let tasks = fs::read_dir("/proc/self/task").expect("procfs").flatten();
    let of = |task: fs::DirEntry| {
        let is_own = task.file_name() == own.file_name().unwrap_or_default();
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let spent = text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0);
        if is_own { 0.0 } else { spent }
    };
    tasks.map(of).sum()
}

fn main() {
    let rig = Rig::new();
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    if let (Some(number), Some(calls)) = (args.next(), args.next()) {
        let row = &ROWS[number.parse::<usize>().expect("the number of a row")];
        Load::new(&rig, row).run(calls.parse().expect("a number of calls"));
        return;
    }
    let mut loads = ROWS.each_ref().map(|row| Load::new(&rig, row));
    let mut rounds: [Vec<f64>; ROWS.len()] = Default::default();
    for _ in 0..ROUNDS {
        for (load, all) in loads.iter_mut().zip(&mut rounds) {
            all.push(load.run(load.row.calls));
        }
    }
    for (row, all) in ROWS.iter().zip(&mut rounds) {
        all.sort_by(f64::total_cmp);
        let (least, median, most) = (all[0], all[ROUNDS / 2], all[ROUNDS - 1]);
        println!("{:<34}{median:>8.2} µs of CPU a call ({least:.2} to {most:.2})", row.title);
    }
}

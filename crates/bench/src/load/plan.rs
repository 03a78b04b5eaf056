//! What a load is to do.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use nfs::v3::wire::{Procedure, StableHow};
use serde::{Deserialize, Serialize, Serializer};

use crate::units::show_size;
use crate::{Error, Target, pattern};

/// Most calls in flight on one connection; a reply finds its slot by the xid's low bits.
pub const DEPTH_MAX: usize = 1024;
/// Largest transfer.
pub const BLOCK_MAX: u64 = 1 << 20;
/// Most memory for data on the way to the server.
const PAYLOAD_MAX: u64 = 1 << 30;

/// Which calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// READ and WRITE, by the plan's percentage.
    Mix,
    /// GETATTR of the data files.
    Getattr,
    /// LOOKUP of random names in a large directory.
    Lookup,
    /// ACCESS to the data files.
    Access,
    /// CREATE and then REMOVE of new names.
    Create,
    /// READDIRPLUS through a large directory, again and again.
    Readdirplus,
    /// COMMIT of the data files.
    Commit,
    /// NULL: what the transport alone costs.
    Null,
}

impl Op {
    /// Whether it writes data.
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Mix)
    }

    /// Whether it moves data of the files.
    pub fn transfers(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Mix)
    }

    /// Whether it needs the data files.
    pub fn needs_files(self) -> bool {
        self.transfers() || matches!(self, Self::Getattr | Self::Access | Self::Commit)
    }

    /// Whether it needs the large directory.
    pub fn needs_entries(self) -> bool {
        matches!(self, Self::Lookup | Self::Readdirplus)
    }
}

/// The order of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Every block equally likely.
    Random,
    /// Every connection through its own share, again and again.
    Sequential,
}

/// How safe a WRITE must be when it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stability {
    /// Not at all; a COMMIT ends the load.
    Unstable,
    /// The data.
    DataSync,
    /// Data and attributes.
    FileSync,
}

impl Stability {
    /// As the wire wants it.
    pub fn wire(self) -> StableHow {
        match self {
            Self::Unstable => StableHow::Unstable,
            Self::DataSync => StableHow::DataSync,
            Self::FileSync => StableHow::FileSync,
        }
    }
}

/// One kind of call in a load; results are kept for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named after the procedures")]
pub enum Kind {
    Null,
    Getattr,
    Lookup,
    Access,
    Read,
    Write,
    Create,
    Remove,
    Readdirplus,
    Commit,
}

impl Kind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Null,
        Self::Getattr,
        Self::Lookup,
        Self::Access,
        Self::Read,
        Self::Write,
        Self::Create,
        Self::Remove,
        Self::Readdirplus,
        Self::Commit,
    ];

    /// Its procedure.
    pub fn procedure(self) -> Procedure {
        match self {
            Self::Null => Procedure::NULL,
            Self::Getattr => Procedure::GETATTR,
            Self::Lookup => Procedure::LOOKUP,
            Self::Access => Procedure::ACCESS,
            Self::Read => Procedure::READ,
            Self::Write => Procedure::WRITE,
            Self::Create => Procedure::CREATE,
            Self::Remove => Procedure::REMOVE,
            Self::Readdirplus => Procedure::READDIRPLUS,
            Self::Commit => Procedure::COMMIT,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_uppercase())
    }
}

/// A load.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The server and its export.
    pub target: Target,
    /// Which calls.
    pub op: Op,
    /// Bytes a transfer.
    pub block: u64,
    /// The order of the blocks.
    pub order: Order,
    /// Of a mix, the READs.
    pub read_percent: u8,
    /// How safe WRITEs are.
    pub stability: Stability,
    /// Connections of each client.
    pub connections: usize,
    /// Calls in flight on each connection.
    pub depth: usize,
    /// Clients, each with its own connections and machine name.
    pub clients: usize,
    /// Addresses the clients call from in turn; the system's choice if empty.
    pub sources: Vec<IpAddr>,
    /// Data files.
    pub files: usize,
    /// Bytes of each data file.
    pub size: u64,
    /// Names in the large directory.
    pub entries: usize,
    /// How long is measured.
    #[serde(serialize_with = "seconds")]
    pub time: Duration,
    /// How long runs before that.
    #[serde(serialize_with = "seconds")]
    pub warm_up: Duration,
    /// Check every byte that comes back, and read everything back in the end.
    pub verify: bool,
    /// Where the pseudo-random sequences begin.
    pub seed: u64,
    /// The caller's user.
    pub uid: u32,
    /// The caller's group.
    pub gid: u32,
    /// Call from ports below 1024.
    pub privileged_port: bool,
    /// Threads; by default one a core, but not more than connections.
    pub threads: Option<usize>,
    /// The server's process, where it runs on this machine, to account its CPU.
    pub server_pid: Option<u32>,
    /// Remove the files afterwards.
    pub cleanup: bool,
}

impl Plan {
    /// The smallest sensible load on `target`.
    pub fn new(target: Target, op: Op) -> Self {
        Self {
            target,
            op,
            block: 8 << 10,
            order: Order::Random,
            read_percent: 75,
            stability: Stability::Unstable,
            connections: 1,
            depth: 16,
            clients: 1,
            sources: Vec::new(),
            files: 1,
            size: 64 << 20,
            entries: 10_000,
            time: Duration::from_secs(10),
            warm_up: Duration::from_secs(1),
            verify: false,
            seed: 1,
            uid: 0,
            gid: 0,
            privileged_port: false,
            threads: None,
            server_pid: None,
            cleanup: false,
        }
    }

    /// Connections of all clients.
    pub fn connections_total(&self) -> usize {
        self.clients * self.connections
    }

    /// Blocks of a file.
    pub fn blocks_per_file(&self) -> u64 {
        self.size / self.block
    }

    /// Blocks of all files.
    pub fn blocks(&self) -> u64 {
        self.blocks_per_file() * self.files as u64
    }

    /// The unit in which data says where it belongs; see [`pattern`].
    pub fn unit(&self) -> usize {
        pattern::unit_for(self.block).unwrap_or(4096)
    }

    /// Whether payload of replies is dropped in the kernel instead of being copied out: only where nobody looks at it
    /// and the second receive it takes is worth it.
    pub fn discards(&self) -> bool {
        self.op.transfers() && self.op != Op::Write && !self.verify && self.block >= 32 << 10
    }

    /// Says what cannot be done and what can.
    pub fn check(&self) -> Result<(), Error> {
        let range = |what: &str, value: usize, max: usize| match value {
            value if (1..=max).contains(&value) => Ok(()),
            value => Err(Error::Plan(format!("{what} is {value}; allowed is 1 to {max}"))),
        };
        range("--connections", self.connections, 4096)?;
        range("--clients", self.clients, 1024)?;
        range("--connections × --clients", self.connections_total(), 16_384)?;
        range("--depth", self.depth, DEPTH_MAX)?;
        range("--files", self.files, 100_000)?;
        range("--entries", self.entries, 1_000_000)?;
        range("--threads", self.threads.unwrap_or(1), 256)?;
        if self.read_percent > 100 {
            return Err(Error::Plan(format!("--read is {}; allowed is 0 to 100", self.read_percent)));
        }
        if self.time < Duration::from_millis(100) {
            return Err(Error::Plan(format!("--time is {:?}; at least 100ms", self.time)));
        }
        if self.op.needs_files() { self.check_space() } else { Ok(()) }
    }

    fn check_space(&self) -> Result<(), Error> {
        let (block, size) = (show_size(self.block), show_size(self.size));
        if self.block > BLOCK_MAX || pattern::unit_for(self.block).is_none() {
            return Err(Error::Plan(format!(
                "--block is {block}; allowed are multiples of 512 B up to 1 MiB"
            )));
        }
        if self.size == 0 || !self.size.is_multiple_of(self.block) {
            return Err(Error::Plan(format!("--size is {size}; it must be a multiple of --block, {block}")));
        }
        if self.size.checked_mul(self.files as u64).is_none_or(|total| total > 1 << 50) {
            return Err(Error::Plan(format!(
                "--files × --size is {} × {size}; at most 1024 TiB",
                self.files
            )));
        }
        let calls = (self.connections_total() * self.depth) as u64;
        if self.op.writes() && calls * self.block > PAYLOAD_MAX {
            let allowed = show_size(PAYLOAD_MAX);
            return Err(Error::Plan(format!(
                "{calls} calls in flight of {block} hold more than {allowed}; lower one of them"
            )));
        }
        // A verifying writer keeps to blocks that no other call in flight touches.
        let wanted =
            if self.verify && self.op.writes() { 2 * calls } else { self.connections_total() as u64 };
        if self.op.transfers() && self.blocks() < wanted {
            let blocks = self.blocks();
            return Err(Error::Plan(format!(
                "the files hold {blocks} blocks of {block}; this load needs {wanted}: raise --size"
            )));
        }
        Ok(())
    }
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = Plan::new("nfs://127.0.0.1/x".parse().unwrap(), Op::Write);
        assert!(plan.check().is_ok());
        change(&mut plan);
        plan.check().map_or_else(|wrong| wrong.to_string(), |()| "accepted".to_owned())
    }

    #[test]
    fn refusals_say_what_is_allowed() {
        assert_eq!(refusal(|plan| plan.depth = 0), "--depth is 0; allowed is 1 to 1024");
        assert_eq!(
            refusal(|plan| plan.block = 1000),
            "--block is 1000 B; allowed are multiples of 512 B up to 1 MiB"
        );
        assert!(refusal(|plan| plan.block = 2 << 20).contains("up to 1 MiB"));
        assert!(refusal(|plan| plan.size = (1 << 20) + 512).contains("multiple of --block, 8 KiB"));
        assert!(refusal(|plan| plan.read_percent = 101).contains("0 to 100"));
        assert!(
            refusal(|plan| (plan.block, plan.connections, plan.depth) = (1 << 20, 2, 1024))
                .contains("lower one")
        );
        assert!(refusal(|plan| (plan.verify, plan.size) = (true, 8 << 10)).contains("raise --size"));
        assert!(refusal(|plan| plan.time = Duration::ZERO).contains("at least 100ms"));
    }

    #[test]
    fn kinds_know_their_place() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            assert_eq!(format!("{:?}", kind.procedure()), format!("NFSPROC3_{kind}"));
        }
    }
}

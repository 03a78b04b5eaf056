//! The plan of a load.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use identity::NtHash;
use nfs_wire::v3::StableHow;
use report::result::Direction;
use report::scenario::Stability;
use report::scenario::limits::{
    BLOCK_MAX, CLIENTS_MAX, CONNECTIONS_MAX, CONNECTIONS_TOTAL_MAX, DEPTH_MAX, DIRECTORIES_MAX, FILES_MAX,
    RATES, SPACE_MAX,
};
use report::units::show_size;
use serde::{Serialize, Serializer};

use crate::{Error, Target, Version, pattern};

/// Bounds the memory for payloads in flight, in bytes.
const PAYLOAD_MAX: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Read,
    Write,
    /// READ and WRITE, by the plan's percentage.
    Mix,
    /// A small file opened and read: over NFSv3 GETATTR, unless attributes are cached, and READ; over NFSv4
    /// OPEN, READ and CLOSE.
    OpenRead,
    Getattr,
    /// LOOKUP of random names in a large directory.
    Lookup,
    Access,
    /// OPEN and then CLOSE of the data files, of NFSv4 alone; over SMB CREATE and CLOSE.
    Open,
    /// CREATE and then REMOVE of new names; over NFSv4 OPEN, which makes the name, CLOSE, and REMOVE.
    Create,
    /// RENAME of a file of each call's own, from directory to directory.
    Rename,
    /// READDIRPLUS through a large directory, again and again; over NFSv4 READDIR with Linux' attributes.
    Readdirplus,
    Commit,
    /// NULL: the cost of the transport alone.
    Null,
}

impl Op {
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Mix)
    }

    pub fn transfers(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Mix | Self::OpenRead)
    }

    pub(crate) fn needs_files(self) -> bool {
        self.transfers() || matches!(self, Self::Getattr | Self::Access | Self::Open | Self::Commit)
    }

    pub(super) fn holds_files_open(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Mix)
    }

    pub(crate) fn needs_entries(self) -> bool {
        matches!(self, Self::Lookup | Self::Readdirplus)
    }

    fn is_spread(self) -> bool {
        matches!(self, Self::Lookup | Self::Create | Self::Rename)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockOrder {
    Random,
    /// Each connection or job cycles through its own share.
    Sequential,
    /// Each connection or job visits its own share in random order, every block once a cycle.
    Shuffled,
}

/// The assignment of blocks to connections or jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// All connections use all files; [`Plan::depth`] is that of each connection.
    Shared,
    /// Each client has this many jobs with files of their own; [`Plan::depth`] is that of each job. Calls use the
    /// client's connections in turn.
    Jobs(usize),
}

pub(crate) fn stable_how(stability: Stability) -> StableHow {
    match stability {
        Stability::Unstable => StableHow::Unstable,
        Stability::DataSync => StableHow::DataSync,
        Stability::FileSync => StableHow::FileSync,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Null,
    Getattr,
    Lookup,
    Access,
    Read,
    Write,
    Create,
    Remove,
    Rename,
    Readdirplus,
    Commit,
    Open,
    Close,
}

impl Kind {
    pub const ALL: [Self; 13] = [
        Self::Null,
        Self::Getattr,
        Self::Lookup,
        Self::Access,
        Self::Read,
        Self::Write,
        Self::Create,
        Self::Remove,
        Self::Rename,
        Self::Readdirplus,
        Self::Commit,
        Self::Open,
        Self::Close,
    ];

    pub(crate) fn direction(self) -> Direction {
        match self {
            Self::Read => Direction::Read,
            Self::Write => Direction::Write,
            Self::Null
            | Self::Getattr
            | Self::Lookup
            | Self::Access
            | Self::Create
            | Self::Remove
            | Self::Rename
            | Self::Readdirplus
            | Self::Commit
            | Self::Open
            | Self::Close => Direction::Other,
        }
    }

    /// Depends on the version: the name of the NFS call, or of the SMB requests.
    pub fn name(self, version: Version) -> String {
        match (self, version) {
            (Self::Readdirplus, Version::V41 | Version::V42) => "READDIR".to_owned(),
            (kind, Version::Smb(_)) => kind.name_over_smb().to_owned(),
            _ => self.to_string(),
        }
    }
}

impl Kind {
    fn name_over_smb(self) -> &'static str {
        match self {
            Self::Null => "ECHO",
            Self::Getattr | Self::Access => "QUERY_INFO",
            Self::Lookup => "CREATE+QUERY_INFO+CLOSE",
            Self::Read => "READ",
            Self::Write => "WRITE",
            Self::Create | Self::Open => "CREATE",
            Self::Remove => "CREATE+CLOSE",
            Self::Rename => "CREATE+SET_INFO+CLOSE",
            Self::Readdirplus => "QUERY_DIRECTORY",
            Self::Commit => "FLUSH",
            Self::Close => "CLOSE",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_uppercase())
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    pub target: Target,
    pub op: Op,
    pub block: u64,
    /// The largest READ or WRITE; a larger operation is made of several (`rsize`, `wsize`).
    pub transfer_max: Option<u64>,
    /// Whether attributes are cached, so that OPEN takes no call.
    pub attribute_cache: bool,
    pub order: BlockOrder,
    /// The share of READs in a mix.
    pub read_percent: u8,
    pub stability: Stability,
    /// Bytes of a job or connection after which a COMMIT follows unstable WRITEs.
    pub commit_every: Option<u64>,
    /// Operations a second of all clients, on a schedule; without it, as many as possible.
    pub rate: Option<f64>,
    pub placement: Placement,
    /// The start of sequences: a share of the blocks, in 2^-64.
    pub start_at: u64,
    /// The number of the first client and of the first file, where other generators have those before.
    pub first_client: usize,
    pub first_file: u32,
    /// Connections of each client.
    pub connections: usize,
    /// Operations in flight on each connection, or of each job.
    pub depth: usize,
    pub clients: usize,
    /// Addresses from which the clients call in turn; if empty, the system chooses.
    pub sources: Vec<IpAddr>,
    pub files: usize,
    /// Bytes of each data file.
    pub size: u64,
    /// Names in the large directory, or in all directories together.
    pub entries: usize,
    pub directories: usize,
    /// The length of the measurement.
    #[serde(serialize_with = "seconds")]
    pub time: Duration,
    #[serde(serialize_with = "seconds")]
    pub warm_up: Duration,
    /// Whether all data is checked, and read back in the end.
    pub verify: bool,
    /// The seed of the pseudo-random sequences.
    pub seed: u64,
    /// The caller's user.
    pub uid: u32,
    /// The caller's group.
    pub gid: u32,
    pub privileged_port: bool,
    /// The password hash of the target's SMB user.
    #[serde(skip)]
    pub nt_hash: Option<NtHash>,
    /// Threads; by default one for each processor, but no more than connections.
    pub threads: Option<usize>,
    /// The server's process, where it runs on this machine, to account its CPU.
    pub server_pid: Option<u32>,
    pub cleanup: bool,
}

impl Plan {
    pub fn new(target: Target, op: Op) -> Self {
        Self {
            target,
            op,
            block: 8 << 10,
            order: BlockOrder::Random,
            read_percent: 75,
            stability: Stability::Unstable,
            transfer_max: None,
            attribute_cache: false,
            commit_every: None,
            rate: None,
            placement: Placement::Shared,
            start_at: 0,
            first_client: 0,
            first_file: 0,
            connections: 1,
            depth: 16,
            clients: 1,
            sources: Vec::new(),
            files: 1,
            size: 64 << 20,
            entries: 10_000,
            directories: 1,
            time: Duration::from_secs(10),
            warm_up: Duration::from_secs(1),
            verify: false,
            seed: 1,
            uid: 0,
            gid: 0,
            privileged_port: false,
            nt_hash: None,
            threads: None,
            server_pid: None,
            cleanup: false,
        }
    }

    pub(crate) fn connections_total(&self) -> usize {
        self.clients * self.connections
    }

    pub(crate) fn blocks_per_file(&self) -> u64 {
        self.size / self.block
    }

    pub fn blocks(&self) -> u64 {
        self.blocks_per_file() * self.files as u64
    }

    pub fn unit(&self) -> usize {
        pattern::unit_for(self.transfer()).unwrap_or(4096)
    }

    pub fn transfer(&self) -> u64 {
        self.transfer_max.map_or(self.block, |most| most.min(self.block))
    }

    pub fn parts(&self) -> usize {
        if self.op.transfers() { usize::try_from(self.block / self.transfer()).unwrap_or(1) } else { 1 }
    }

    pub(crate) fn groups_max(&self) -> usize {
        match self.placement {
            Placement::Shared => self.depth,
            Placement::Jobs(jobs) => (jobs * self.depth).div_ceil(self.connections),
        }
    }

    /// Whether the generator knows the last write of each block.
    pub(crate) fn keeps_ledger(&self) -> bool {
        self.verify && self.op.writes()
    }

    /// Whether the kernel drops the payload of replies instead of copying it. Needs a load that does not
    /// verify data, and a payload that is worth a second receive.
    pub(crate) fn discards(&self) -> bool {
        self.op.transfers()
            && self.op != Op::Write
            && !self.verify
            && self.transfer() >= 32 << 10
            && self.target.version.is_plain()
    }

    /// Refuses an impossible plan, and names the possible values.
    pub fn check(&self) -> Result<(), Error> {
        if self.op == Op::Open && self.target.version == Version::V3 {
            let text = format!(
                "--op open is of NFSv4 and SMB; write ?version=4.1 or ?version=4.2 behind {}",
                self.target
            );
            return Err(Error::Plan(text));
        }
        if self.op == Op::Access && self.target.version.is_smb() {
            let text = "--op access is of NFS: over SMB a file is opened with the rights that are wanted (--op open)";
            return Err(Error::Plan(text.to_owned()));
        }
        let range = |what: &str, value: usize, max: usize| match value {
            value if (1..=max).contains(&value) => Ok(()),
            value => Err(Error::Plan(format!("{what} is {value}; allowed is 1 to {max}"))),
        };
        range("--connections", self.connections, CONNECTIONS_MAX)?;
        range("--clients", self.clients, CLIENTS_MAX)?;
        range("--connections × --clients", self.connections_total(), CONNECTIONS_TOTAL_MAX)?;
        if self.target.channels > self.connections {
            let (channels, connections) = (self.target.channels, self.connections);
            return Err(Error::Plan(format!(
                "a session cannot have channels={channels} of --connections {connections}; at most as many are possible"
            )));
        }
        range("--depth", self.depth, DEPTH_MAX)?;
        range("calls in flight on a connection", self.groups_max() * self.parts(), DEPTH_MAX)?;
        range("--files", self.files, FILES_MAX)?;
        range("--entries", self.entries, 1_000_000)?;
        range("--directories", self.directories, DIRECTORIES_MAX)?;
        if self.directories > 1 && !self.op.is_spread() {
            let text = "--directories is for lookup, create and rename; leave it out for others";
            return Err(Error::Plan(text.to_owned()));
        }
        range("--threads", self.threads.unwrap_or(1), 256)?;
        if self.read_percent > 100 {
            return Err(Error::Plan(format!("--read is {}; allowed is 0 to 100", self.read_percent)));
        }
        if let Some(rate) = self.rate.filter(|rate| !RATES.contains(rate)) {
            let (least, most) = (RATES.start(), RATES.end());
            return Err(Error::Plan(format!("--rate is {rate}; allowed is {least} to {most}")));
        }
        if self.time < Duration::from_millis(100) {
            return Err(Error::Plan(format!(
                "--time is {} ms; allowed: 100ms or more",
                self.time.as_millis()
            )));
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
        let transfer = self.transfer();
        if transfer == 0 || !self.block.is_multiple_of(transfer) || pattern::unit_for(transfer).is_none() {
            return Err(Error::Plan(format!(
                "a transfer is {}; allowed are multiples of 512 B that divide the block, {block}",
                show_size(transfer)
            )));
        }
        if self.keeps_ledger() && (transfer != self.block || self.placement != Placement::Shared) {
            return Err(Error::Plan("--verify needs whole blocks of shared files".to_owned()));
        }
        if self.size == 0 || !self.size.is_multiple_of(self.block) {
            return Err(Error::Plan(format!("--size is {size}; it must be a multiple of --block, {block}")));
        }
        if self.size.checked_mul(self.files as u64).is_none_or(|total| total > SPACE_MAX) {
            return Err(Error::Plan(format!(
                "--files × --size is {} × {size}; at most {}",
                self.files,
                show_size(SPACE_MAX)
            )));
        }
        let calls = (self.connections_total() * self.groups_max()) as u64;
        if self.op.writes() && calls * self.block > PAYLOAD_MAX {
            let allowed = show_size(PAYLOAD_MAX);
            return Err(Error::Plan(format!(
                "{calls} calls in flight of {block} hold more than {allowed}; lower one of them"
            )));
        }
        // A verifying writer uses only blocks without another call in flight.
        let wanted = if self.keeps_ledger() { 2 * calls } else { self.connections_total() as u64 };
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
        assert_eq!(refusal(|plan| plan.rate = Some(0.0)), "--rate is 0; allowed is 0.1 to 1000000000");
        assert!(refusal(|plan| plan.rate = Some(f64::NAN)).contains("--rate is NaN"));
        assert!(refusal(|plan| plan.time = Duration::ZERO).contains("allowed: 100ms or more"));
        assert_eq!(refusal(|plan| plan.directories = 0), "--directories is 0; allowed is 1 to 10000");
        assert!(refusal(|plan| plan.directories = 2).contains("is for lookup, create and rename"));
        assert_eq!(refusal(|plan| (plan.op, plan.directories) = (Op::Rename, 2)), "accepted");
        assert_eq!(
            refusal(|plan| (plan.target.channels, plan.connections) = (4, 3)),
            "a session cannot have channels=4 of --connections 3; at most as many are possible"
        );
        assert_eq!(refusal(|plan| (plan.target.channels, plan.connections) = (4, 6)), "accepted");
    }

    #[test]
    fn kinds_know_their_place() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            assert_eq!(kind.name(Version::V3), kind.to_string());
        }
    }
}

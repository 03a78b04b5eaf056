//! [`Sides`]: what a copy takes of the volume that it comes from, and of the one that it goes to.

use super::open_file::Opened;
use crate::qos::{Demand, Kind, Moved, Toll};
use crate::volume::Volume;
use std::net::IpAddr;
use std::time::Duration;

/// The volumes of a copy, which may be one. Of two, the source pays for reading and the target for writing.
pub struct Sides<'s> {
    source: &'s Volume,
    target: &'s Volume,
    client: IpAddr,
}

impl<'s> Sides<'s> {
    /// Those of a copy that `client` asks for.
    pub fn new(source: &'s Opened<'_>, target: &'s Opened<'_>, client: IpAddr) -> Self {
        Self { source: source.file().volume(), target: target.file().volume(), client }
    }

    /// Whether these are two volumes.
    pub fn are_two(&self) -> bool {
        self.source.id() != self.target.id()
    }

    /// Whether any of them is limited.
    pub fn is_limited(&self) -> bool {
        self.source.gate().is_limited() || self.target.gate().is_limited()
    }

    /// What copying so many bytes in so many ranges takes of the source, if that is another volume than the target.
    pub fn source_toll(&self, bytes: u64, ranges: u32) -> Option<Toll> {
        let demand = Demand { reads: ranges, ..Demand::read(clamped(bytes)) };
        self.are_two().then(|| self.source.toll(self.client, demand)).flatten()
    }

    /// What copying so many bytes in so many ranges takes of the target.
    pub fn target_toll(&self, bytes: u64, ranges: u32) -> Option<Toll> {
        let read = Demand { reads: ranges, ..Demand::read(clamped(bytes)) };
        let written = Demand { writes: ranges, ..Demand::write(clamped(bytes)) };
        let demand = if self.are_two() { written } else { written.and(read) };
        self.target.toll(self.client, demand)
    }

    /// So many copied bytes at the target: in one volume each is read and written.
    pub fn at_target(&self, bytes: u64) -> Moved {
        let bytes = clamped(bytes);
        Moved { read: if self.are_two() { 0 } else { bytes }, written: bytes }
    }

    /// So many copied bytes at the source, if that is another volume.
    pub fn at_source(&self, bytes: u64) -> Moved {
        Moved { read: clamped(bytes), written: 0 }
    }

    /// Counts bytes that were copied as read, where the source is another volume than the target.
    pub fn count_read(&self, bytes: u64, time: Duration) {
        if self.are_two() {
            self.source.traffic().count(Kind::Read, 1, bytes, time);
        }
    }

    /// Counts operations and bytes that were copied as written.
    pub fn count_written(&self, operations: u64, bytes: u64, time: Duration) {
        let Moved { read, written } = self.at_target(bytes);
        let moved = u64::from(read) + u64::from(written);
        self.target.traffic().count(Kind::Write, operations, moved, time);
    }
}

fn clamped(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

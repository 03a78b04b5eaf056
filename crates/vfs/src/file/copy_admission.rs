//! [`CopyAdmission`]: what a copy takes of the volume that it comes from, and of the one that it goes to.

use super::open_file::OpenFile;
use crate::qos::{Admission, Demand, Kind, Transferred};
use crate::volume::Volume;
use std::net::IpAddr;
use std::time::Duration;

/// The volumes of a copy, which may be one. Of two, the source pays for reading and the target for writing.
pub struct CopyAdmission<'s> {
    source: &'s Volume,
    target: &'s Volume,
    client: IpAddr,
}

impl<'s> CopyAdmission<'s> {
    /// Those of a copy that `client` asks for.
    pub fn new(source: &'s OpenFile<'_>, target: &'s OpenFile<'_>, client: IpAddr) -> Self {
        Self { source: source.file().volume(), target: target.file().volume(), client }
    }

    /// Whether these are two volumes.
    pub fn is_between_volumes(&self) -> bool {
        self.source.id() != self.target.id()
    }

    /// Whether any of them is limited.
    pub fn is_limited(&self) -> bool {
        self.source.gate().is_limited() || self.target.gate().is_limited()
    }

    /// What copying so many bytes in so many ranges takes of the source, if that is another volume than the target.
    pub fn source_admission(&self, bytes: u64, ranges: u32) -> Option<Admission> {
        let demand = Demand { reads: ranges, ..Demand::read(clamped(bytes)) };
        self.is_between_volumes().then(|| self.source.admission(self.client, demand)).flatten()
    }

    /// What copying so many bytes in so many ranges takes of the target.
    pub fn target_admission(&self, bytes: u64, ranges: u32) -> Option<Admission> {
        let read = Demand { reads: ranges, ..Demand::read(clamped(bytes)) };
        let written = Demand { writes: ranges, ..Demand::write(clamped(bytes)) };
        let demand = if self.is_between_volumes() { written } else { written.and(read) };
        self.target.admission(self.client, demand)
    }

    /// So many copied bytes at the target: in one volume each is read and written.
    pub fn at_target(&self, bytes: u64) -> Transferred {
        let bytes = clamped(bytes);
        Transferred { read: if self.is_between_volumes() { 0 } else { bytes }, written: bytes }
    }

    /// So many copied bytes at the source, if that is another volume.
    pub fn at_source(&self, bytes: u64) -> Transferred {
        Transferred { read: clamped(bytes), written: 0 }
    }

    /// Counts bytes that were copied as read, where the source is another volume than the target.
    pub fn count_read(&self, bytes: u64, time: Duration) {
        if self.is_between_volumes() {
            self.source.traffic().count(Kind::Read, 1, bytes, time);
        }
    }

    /// Counts operations and bytes that were copied as written.
    pub fn count_written(&self, operations: u64, bytes: u64, time: Duration) {
        let Transferred { read, written } = self.at_target(bytes);
        let moved = u64::from(read) + u64::from(written);
        self.target.traffic().count(Kind::Write, operations, moved, time);
    }
}

fn clamped(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

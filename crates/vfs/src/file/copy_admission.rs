//! [`CopyAdmission`]: the admission of a copy at its source volume and its target volume.

use super::open_file::OpenFile;
use crate::qos::{Admission, Demand, Kind, Transferred};
use crate::volume::Volume;
use std::net::IpAddr;
use std::time::Duration;

/// The volumes of a copy, perhaps one. Of two, the source pays for reading and the target for writing.
pub struct CopyAdmission<'s> {
    source: &'s Volume,
    target: &'s Volume,
    client: IpAddr,
}

impl<'s> CopyAdmission<'s> {
    pub fn new(source: &'s OpenFile<'_>, target: &'s OpenFile<'_>, client: IpAddr) -> Self {
        Self { source: source.file().volume(), target: target.file().volume(), client }
    }

    pub fn is_between_volumes(&self) -> bool {
        self.source.id() != self.target.id()
    }

    pub fn is_limited(&self) -> bool {
        self.source.gate().is_limited() || self.target.gate().is_limited()
    }

    /// Returns the admission at the source for a copy of `bytes` in `ranges`, if the source is another volume than the
    /// target.
    pub fn source_admission(&self, bytes: u64, ranges: u32) -> Option<Admission> {
        let demand = Demand { reads: ranges, ..Demand::read(clamped(bytes)) };
        self.is_between_volumes().then(|| self.source.admission(self.client, demand)).flatten()
    }

    pub fn target_admission(&self, bytes: u64, ranges: u32) -> Option<Admission> {
        let read = Demand { reads: ranges, ..Demand::read(clamped(bytes)) };
        let written = Demand { writes: ranges, ..Demand::write(clamped(bytes)) };
        let demand = if self.is_between_volumes() { written } else { written.and(read) };
        self.target.admission(self.client, demand)
    }

    /// Bytes transferred at the target. A copy within one volume reads and writes each byte there.
    pub fn at_target(&self, bytes: u64) -> Transferred {
        let bytes = clamped(bytes);
        Transferred { read: if self.is_between_volumes() { 0 } else { bytes }, written: bytes }
    }

    /// Bytes transferred at a source in another volume.
    pub fn at_source(&self, bytes: u64) -> Transferred {
        Transferred { read: clamped(bytes), written: 0 }
    }

    /// Counts bytes that were copied as read, where the source is another volume than the target.
    pub fn count_read(&self, bytes: u64, time: Duration) {
        if self.is_between_volumes() {
            self.source.traffic().count(Kind::Read, 1, bytes, time);
        }
    }

    pub fn count_written(&self, operations: u64, bytes: u64, time: Duration) {
        let Transferred { read, written } = self.at_target(bytes);
        let moved = u64::from(read) + u64::from(written);
        self.target.traffic().count(Kind::Write, operations, moved, time);
    }
}

fn clamped(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

//! Replies of a server to the third slot of a session, and calls taken apart, for tests.

use nfs_wire::rpc::{CallHeader, RecordMark};
use nfs_wire::v4::{
    Argument, CompoundHead, CompoundReplyHead, OpReply, PROGRAM, Procedure, Reply, SequenceOk,
    SequenceStatus, Status, VERSION,
};
use xdr::{Decode, Encode, Reader};

use super::session::SessionSlot;

pub const SESSION: [u8; 16] = [7; 16];
const SLOT: u32 = 2;
const HIGHEST: u32 = 8;

pub fn slot(sequence: u32) -> SessionSlot {
    SessionSlot { session: SESSION, slot: SLOT, highest: HIGHEST, sequence }
}

/// SEQUENCE, PUTFH, then `results`.
pub fn compound(status: Status, sequenceid: u32, results: &[OpReply<'_>]) -> Vec<u8> {
    let sequence = SequenceOk {
        sessionid: SESSION,
        sequenceid,
        slotid: SLOT,
        highest_slotid: HIGHEST,
        target_highest_slotid: HIGHEST,
        status_flags: SequenceStatus(0),
    };
    let first = [OpReply::Sequence(Reply::Ok(sequence)), OpReply::Putfh(Status::OK)];
    let operations = u32::try_from(results.len() + 2).unwrap_or(u32::MAX);
    let mut bytes = CompoundReplyHead { status, tag: b"", operations }.to_bytes();
    first.iter().chain(results).for_each(|result| bytes.extend(result.to_bytes()));
    bytes
}

/// Decodes each record as a COMPOUND of this minor version.
///
/// # Panics
/// A record is anything else.
pub fn operations(mut records: &[u8], minor: u32) -> Vec<Vec<Argument<'_>>> {
    let mut calls = Vec::new();
    while let Some((word, behind)) = records.split_first_chunk() {
        let mark = RecordMark::from_word(u32::from_be_bytes(*word));
        assert!(mark.last);
        let (record, rest) = behind.split_at(mark.length as usize);
        let mut r = Reader::new(record);
        let header = CallHeader::decode(&mut r).unwrap();
        assert_eq!((header.prog, header.vers, header.proc), (PROGRAM, VERSION, Procedure::COMPOUND.0));
        let head = CompoundHead::decode(&mut r).unwrap();
        assert_eq!((head.tag, head.minorversion), (&b""[..], minor));
        calls.push((0..head.operations).map(|_| Argument::decode(&mut r).unwrap()).collect());
        assert_eq!(r.remaining(), 0);
        records = rest;
    }
    assert!(records.is_empty(), "part of a record");
    calls
}

/// # Panics
/// There are several calls, or none.
pub fn only_call(record: &[u8], minor: u32) -> Vec<Argument<'_>> {
    let mut calls = operations(record, minor);
    assert_eq!(calls.len(), 1);
    calls.remove(0)
}

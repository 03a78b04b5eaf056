//! Record marks and reply headers of outgoing messages, RFC 5531 §9 and §11.

use nfs_wire::rpc::{Accepted, OpaqueAuth, RecordMark, Rejected, ReplyBody, ReplyHeader};
use transport::{Outbox, Start};
use xdr::{Encode, Writer};

pub trait Records {
    /// Begins a record: reserves the space of its mark.
    fn begin(&mut self) -> Start;
    /// Begins a record with the header of an accepted, successful reply.
    fn begin_success(&mut self, xid: u32) -> Start;
    fn writer(&mut self) -> Writer<'_>;
    /// Ends the record and fills its mark.
    fn finish(&mut self, start: Start);
    fn reject(&mut self, xid: u32, rejected: Rejected);
    /// Adds a complete reply that was accepted but has no results.
    fn accept(&mut self, xid: u32, accepted: Accepted);
    /// The record since `start`, without its mark; `None` if a part of it is in a pipe.
    fn record(&self, start: Start) -> Option<&[u8]>;
    fn push_record(&mut self, record: &[u8]);
}

impl Records for Outbox {
    #[inline]
    fn begin(&mut self) -> Start {
        let start = self.start();
        self.bytes().extend_from_slice(&[0; RecordMark::SIZE]);
        start
    }

    #[inline]
    fn begin_success(&mut self, xid: u32) -> Start {
        let start = self.begin();
        self.bytes().extend_from_slice(&ReplyHeader::success(xid));
        start
    }

    #[inline]
    fn writer(&mut self) -> Writer<'_> {
        Writer::new(self.bytes())
    }

    #[inline]
    fn finish(&mut self, start: Start) {
        let length = self.len_since(start) - RecordMark::SIZE;
        let length = u32::try_from(length).expect("a record is at most a few MiB");
        self.patch(start, &RecordMark { last: true, length }.to_word().to_be_bytes());
    }

    fn reject(&mut self, xid: u32, rejected: Rejected) {
        whole(self, &ReplyHeader { xid, body: ReplyBody::Denied(rejected) });
    }

    fn accept(&mut self, xid: u32, accepted: Accepted) {
        whole(self, &ReplyHeader { xid, body: ReplyBody::Accepted(OpaqueAuth::default(), accepted) });
    }

    fn record(&self, start: Start) -> Option<&[u8]> {
        self.since(start)?.get(RecordMark::SIZE..)
    }

    fn push_record(&mut self, record: &[u8]) {
        let start = self.begin();
        self.bytes().extend_from_slice(record);
        self.finish(start);
    }
}

fn whole(out: &mut Outbox, header: &ReplyHeader<'_>) {
    let start = out.begin();
    header.encode(&mut out.writer());
    out.finish(start);
}

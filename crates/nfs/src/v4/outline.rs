//! A compound as it is seen before it is run.

use super::price::Price;
use super::table::Traits;
use crate::call_stats::ThreadCounters;
use crate::limits::TRANSFER_BYTES_MAX;
use nfs_wire::v4::{Argument, CompoundHead, Op, PutfhArgs, ReadArgs, WriteHead};
use std::ops::ControlFlow;
use transport::Dispatch;
use vfs::qos::Kind;
use xdr::{Decode, Malformed, Reader};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    pub(crate) minor: u32,
    pub(crate) first: Op,
    /// Whether it must not be done twice, and nothing but the transport would keep it from that: sessions do since 4.1.
    pub(crate) is_once: bool,
    pub(crate) is_recorded: bool,
    pub(crate) dispatch: Dispatch,
    pub(crate) kind: Kind,
    /// The most bytes of data that its reply may have.
    pub(crate) reply_bytes_max: u32,
}

impl Default for Outline {
    fn default() -> Self {
        let (first, dispatch, kind) = (Op::ILLEGAL, Dispatch::Inline, Kind::Other);
        Self { minor: 0, first, is_once: false, is_recorded: false, dispatch, kind, reply_bytes_max: 0 }
    }
}

/// Scans the arguments of a COMPOUND, and counts its operations.
pub(crate) fn outline(args: &[u8], counts: Option<&mut ThreadCounters>) -> Outline {
    let mut r = Reader::new(args);
    let Ok(head) = CompoundHead::decode(&mut r) else { return Outline::default() };
    let minor = head.minorversion;
    let mut counts = counts.and_then(|counts| counts.compound(minor));
    let (mut first, mut traits, mut read) = (None, Traits::NONE, 0u32);
    scan_operations(&mut r, head.operations, |seen| {
        if let Some(counts) = &mut counts {
            counts.add(seen.op);
        }
        first = first.or(Some(seen.op));
        traits = traits.or(Traits::of(seen.op));
        read = read.saturating_add(seen.price.reply_bytes(seen.op));
        ControlFlow::Continue(())
    });
    Outline {
        minor,
        first: first.unwrap_or(Op::ILLEGAL),
        is_once: minor == 0 && traits.has(Traits::ONCE),
        is_recorded: traits.has(Traits::RECORDED),
        dispatch: if traits.has(Traits::WAITS) { Dispatch::Batched } else { Dispatch::Inline },
        kind: match (read, traits.has(Traits::WRITES)) {
            (_, true) => Kind::Write,
            (0, false) => Kind::Other,
            (_, false) => Kind::Read,
        },
        reply_bytes_max: read.min(TRANSFER_BYTES_MAX),
    }
}

/// An operation as it is seen before it is run.
pub(super) struct OperationOutline<'a> {
    pub(super) op: Op,
    /// Bytes of the arguments from the operation on.
    pub(super) rest: usize,
    /// The filehandle of a PUTFH.
    pub(super) handle: Option<&'a [u8]>,
    pub(super) price: Price,
}

/// Words of `SEQUENCE4args`: the session, three numbers and a flag (RFC 8881 §18.46.1).
const SEQUENCE_WORDS: usize = 8;

/// Passes each operation of a COMPOUND to `see`, up to the first that cannot be decoded or whose data is missing.
#[inline]
pub(super) fn scan_operations<'a>(
    r: &mut Reader<'a>,
    operations: u32,
    mut see: impl FnMut(OperationOutline<'a>) -> ControlFlow<()>,
) {
    for _ in 0..operations {
        let rest = r.remaining();
        let Ok(op) = Op::decode(r) else { return };
        let mut handle = None;
        // Length of the data that follows. It may be missing.
        let mut data = 0;
        // Frequent operations are decoded without the `Argument` enum.
        let price = match op {
            Op::SEQUENCE => r.words::<SEQUENCE_WORDS>().map(|_| Price::Free),
            Op::PUTFH => PutfhArgs::decode(r).map(|args| {
                handle = Some(args.object.0);
                Price::Free
            }),
            Op::GETATTR => price_of_getattr(r),
            Op::READ => ReadArgs::decode(r).map(|args| Price::read(args.count)),
            Op::WRITE => WriteHead::decode(r).map(|write| {
                data = write.data_length;
                Price::write(data)
            }),
            _ => match Argument::decode_body(op, r) {
                Ok(Argument::Illegal(_)) => Err(Malformed("no operation")),
                argument => argument.map(|argument| Price::of(&argument)),
            },
        };
        let Ok(price) = price else { return };
        if see(OperationOutline { op, rest, handle, price }).is_break()
            || data > 0 && r.fixed(data as usize).is_err()
        {
            return;
        }
    }
}

/// Reads the arguments of GETATTR, without a value for its bitmap.
fn price_of_getattr(r: &mut Reader<'_>) -> Result<Price, Malformed> {
    let count = r.u32()?;
    let words = r.fixed((count as usize).saturating_mul(4))?.as_chunks().0;
    let word = |index: usize| words.get(index).map_or(0, |word| u32::from_be_bytes(*word));
    let bits = u64::from(word(1)) << 32 | u64::from(word(0));
    let asks_for = |attribute: u32| bits >> attribute & 1 == 1;
    Ok(Price::getattr(asks_for))
}

#[cfg(test)]
mod tests {
    use super::super::price::first_segment;
    use super::*;
    use nfs_wire::v4::{FileHandle, ReclaimCompleteArgs, Stateid};
    use xdr::Encode;

    #[test]
    fn compound_with_a_record_is_seen_as_one() {
        let put = Argument::Putfh(PutfhArgs { object: FileHandle(b"handle") });
        let complete = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        let read = Argument::Read(ReadArgs { stateid: Stateid::ANONYMOUS, offset: 0, count: 4096 });
        let args_of = |operations: &[&Argument<'_>]| {
            let count = u32::try_from(operations.len()).unwrap();
            let head = CompoundHead { tag: b"", minorversion: 1, operations: count };
            let operations = operations.iter().flat_map(|operation| operation.to_bytes());
            head.to_bytes().into_iter().chain(operations).collect::<Vec<u8>>()
        };
        assert!(outline(&args_of(&[&put, &complete, &read]), None).is_recorded);
        let args = args_of(&[&put, &read]);
        let outline = outline(&args, None);
        assert!(!outline.is_recorded && first_segment(&args).is_some());
        assert_eq!((outline.kind, outline.reply_bytes_max), (Kind::Read, 4096));
    }
}

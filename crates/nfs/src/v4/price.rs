//! The price of operations at the limits of a volume, and the segments that are paid together.
//!
//! | operations | price |
//! |---|---|
//! | READ, READ_PLUS | one READ, and the requested bytes |
//! | WRITE | one WRITE, and its bytes |
//! | COPY | one READ and one WRITE, and the bytes of both |
//! | background COPY | one operation; each part is paid like a COPY |
//! | READDIR, READLINK, GETXATTR, LISTXATTRS, GETATTR of an ACL | one operation, and the bytes of the reply as bytes read |
//! | SETXATTR, CREATE of a symbolic link | one operation, and the value as bytes written |
//! | other GETATTR, ACCESS | one operation; one of each is free with every other operation of the compound |
//! | SEQUENCE, PUTFH and the like, DELEGRETURN, sessions and clients | nothing |
//! | COMMIT, RECLAIM_COMPLETE, SETCLIENTID_CONFIRM | nothing here: each client has a rate of them (`call_rates.rs`) |
//! | all others | one operation |

use super::outline::{OperationOutline, scan_operations};
use crate::handle::HandleSigner;
use crate::limits::{COPY_PAID_BYTES_MAX, LISTING_BYTES_MAX, TRANSFER_BYTES_MAX};
use nfs_wire::v4::{Argument, CompoundHead, CopyArgs, CreateType, Op, PATH_MAX, XATTR_MAX, attr};
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use vfs::qos::Demand;
use vfs::{ExportId, VolumeId};
use xdr::{Decode, Reader};

/// Attributes that are access control lists. They may be as long as extended attributes, in which file systems have them.
pub(super) const LISTS: [u32; 2] = [attr::ACL, attr::DACL];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Price {
    Free,
    Getattr,
    Access,
    Demand(Demand),
}

impl Price {
    const OTHER: Self = Self::Demand(Demand::OTHER);

    #[inline]
    pub(super) fn read(bytes: u32) -> Self {
        Self::Demand(Demand::read(bytes.min(TRANSFER_BYTES_MAX)))
    }

    #[inline]
    pub(super) fn write(bytes: u32) -> Self {
        Self::Demand(Demand::write(bytes.min(TRANSFER_BYTES_MAX)))
    }

    #[inline]
    pub(super) fn getattr(asks_for: impl Fn(u32) -> bool) -> Self {
        if LISTS.into_iter().any(asks_for) { Self::Demand(Demand::list(XATTR_MAX)) } else { Self::Getattr }
    }

    /// The price of an operation.
    pub(super) fn of(argument: &Argument<'_>) -> Self {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Self::Demand(match argument {
            Argument::Putfh(_)
            | Argument::Putrootfh
            | Argument::Putpubfh
            | Argument::Getfh
            | Argument::Savefh
            | Argument::Restorefh
            // Other clients may wait for it.
            | Argument::Delegreturn(_)
            | Argument::Commit(_) => return Self::Free,
            argument if is_of_no_file(argument) => return Self::Free,
            Argument::Getattr(args) => {
                return Self::getattr(|attribute| args.attr_request.contains(attribute));
            }
            Argument::Access(_) => return Self::Access,
            Argument::Read(args) => return Self::read(args.count),
            Argument::ReadPlus(args) => return Self::read(args.count),
            Argument::Readdir(args) => Demand::list(args.maxcount.min(LISTING_BYTES_MAX)),
            Argument::Readlink => Demand::list(PATH_MAX),
            Argument::Getxattr(_) => Demand::list(XATTR_MAX),
            Argument::Listxattrs(args) => Demand::list(args.maxcount.min(XATTR_MAX)),
            Argument::Setxattr(args) => Demand::store(length(args.value.0)),
            Argument::Copy(args) if may_go_on_alone(args) => Demand::OTHER,
            Argument::Copy(args) => copy_demand(if args.count == 0 { u64::MAX } else { args.count }),
            Argument::Create(args) => match args.objtype {
                CreateType::Symlink(target) => Demand::store(length(target)),
                _ => Demand::OTHER,
            },
            _ => return Self::OTHER,
        })
    }

    /// Whether it is that of a COPY that is done before its reply.
    fn is_copy(self, op: Op) -> bool {
        matches!(self, Self::Demand(demand) if op == Op::COPY && demand.write_bytes > 0)
    }

    /// Bytes of data that the reply has.
    #[inline]
    pub(super) fn reply_bytes(self, op: Op) -> u32 {
        match self {
            Self::Demand(demand) if matches!(op, Op::READ | Op::READ_PLUS | Op::READDIR) => demand.read_bytes,
            _ => 0,
        }
    }
}

/// Whether a COPY may be done part by part after its reply. The parts pay then, or else it pays when it is done.
pub(super) fn may_go_on_alone(args: &CopyArgs<'_>) -> bool {
    !args.synchronous && (args.count == 0 || args.count > COPY_PAID_BYTES_MAX)
}

pub(super) fn copy_demand(bytes: u64) -> Demand {
    let bytes = u32::try_from(bytes.min(COPY_PAID_BYTES_MAX)).unwrap_or(u32::MAX);
    Demand::read(bytes).and(Demand::write(bytes))
}

/// Operations on sessions, clients and stateids, which no volume counts.
fn is_of_no_file(argument: &Argument<'_>) -> bool {
    matches!(
        argument,
        Argument::Sequence(_)
            | Argument::ExchangeId(_)
            | Argument::CreateSession(_)
            | Argument::DestroySession(_)
            | Argument::DestroyClientid(_)
            | Argument::BindConnToSession(_)
            | Argument::BackchannelCtl(_)
            | Argument::ReclaimComplete(_)
            | Argument::Setclientid(_)
            | Argument::SetclientidConfirm(_)
            | Argument::Renew(_)
            | Argument::ReleaseLockowner(_)
            | Argument::TestStateid(_)
            | Argument::FreeStateid(_)
            | Argument::OffloadStatus(_)
            | Argument::OffloadCancel(_)
    )
}

#[derive(Default)]
struct PriceSum {
    demand: Demand,
    /// Operations with each of which a GETATTR and an ACCESS go free.
    operations: u32,
    getattrs: u32,
    accesses: u32,
}

impl PriceSum {
    fn add(&mut self, price: Price) {
        match price {
            Price::Free => {}
            Price::Getattr => self.getattrs += 1,
            Price::Access => self.accesses += 1,
            Price::Demand(demand) => {
                self.demand = self.demand.and(demand);
                self.operations += 1;
            }
        }
    }

    fn demand(&self) -> Demand {
        let beyond = self.getattrs.max(self.accesses).saturating_sub(self.operations);
        // A reply has at most one transfer of data: requested bytes beyond that are not read.
        let read_bytes = self.demand.read_bytes.min(2 * TRANSFER_BYTES_MAX);
        Demand { read_bytes, others: self.demand.others + beyond, ..self.demand }
    }
}

/// Operations that are paid for: those at this volume that begin before this place in the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PaidOperations {
    volume: VolumeId,
    until: NonZeroU32,
}

impl PaidOperations {
    /// None, if that is at the beginning.
    pub(crate) fn new(volume: VolumeId, until: usize) -> Option<Self> {
        let until = u32::try_from(until).ok().and_then(NonZeroU32::new)?;
        Some(Self { volume, until })
    }

    /// Whether one that begins `at` is among them.
    pub(super) fn has(self, volume: VolumeId, at: usize) -> bool {
        self.volume == volume && at < self.until()
    }

    pub(super) fn until(self) -> usize {
        self.until.get() as usize
    }
}

/// Operations that are paid for together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Segment<'a> {
    /// The first filehandle.
    pub(crate) handle: Option<&'a [u8]>,
    pub(crate) demand: Demand,
    /// The place in the arguments where they end: at a filehandle of another export, at a second COPY, or behind the last operation that
    /// can be read.
    pub(crate) until: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SegmentStart {
    /// The place in the arguments, and the operations from there on.
    pub(super) at: usize,
    pub(super) operations: u32,
    /// The export of the current file, if there is one.
    pub(super) export: Option<ExportId>,
    /// Whether the operation before was a WRITE, so that a GETATTR goes free with it.
    pub(super) has_written: bool,
}

/// The operations of a compound that are paid for before it is run: the first ones, at the export of its first filehandle.
pub(crate) fn first_segment(args: &[u8]) -> Option<Segment<'_>> {
    let mut r = Reader::new(args);
    let operations = CompoundHead::decode(&mut r).ok()?.operations;
    Some(segment(
        args,
        SegmentStart { at: args.len() - r.remaining(), operations, ..SegmentStart::default() },
    ))
}

/// The operations from `start` on that can be paid for together.
pub(super) fn segment(args: &[u8], start: SegmentStart) -> Segment<'_> {
    let mut r = Reader::new(args.get(start.at..).unwrap_or_default());
    let mut sum = PriceSum { operations: u32::from(start.has_written), ..PriceSum::default() };
    let (mut export, mut handle, mut until) = (start.export, None, start.at);
    let mut has_copied = false;
    scan_operations(&mut r, start.operations, |seen| {
        let OperationOutline { op, rest, price, .. } = seen;
        let begins = args.len() - rest;
        // Several COPYs move more than a reply: each queues on its own.
        if price.is_copy(op) && std::mem::replace(&mut has_copied, true) {
            return ControlFlow::Break(());
        }
        if let Some(put) = seen.handle {
            let claimed = HandleSigner::claimed_export(put);
            match export {
                None => (export, handle) = (claimed, Some(put)),
                Some(_) if export == claimed => {}
                Some(_) => return ControlFlow::Break(()),
            }
        } else if matches!(op, Op::PUTROOTFH | Op::PUTPUBFH) {
            return ControlFlow::Break(());
        }
        sum.add(price);
        until = begins + 1;
        ControlFlow::Continue(())
    });
    Segment { handle, demand: sum.demand(), until }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs_wire::v4::{
        Access, AccessArgs, Bitmap, FileHandle, GetattrArgs, GetxattrArgs, PutfhArgs, ReadArgs, StableHow,
        Stateid, WriteArgs,
    };
    use xdr::Encode;

    const STATEID: Stateid = Stateid::ANONYMOUS;

    fn read(count: u32) -> Argument<'static> {
        Argument::Read(ReadArgs { stateid: STATEID, offset: 0, count })
    }

    fn write(data: &[u8]) -> Argument<'_> {
        Argument::Write(WriteArgs { stateid: STATEID, offset: 0, stable: StableHow::Unstable, data })
    }

    fn getattr() -> Argument<'static> {
        Argument::Getattr(GetattrArgs { attr_request: Bitmap::EMPTY })
    }

    fn access() -> Argument<'static> {
        Argument::Access(AccessArgs { access: Access(1) })
    }

    fn put(handle: &[u8]) -> Argument<'_> {
        Argument::Putfh(PutfhArgs { object: FileHandle(handle) })
    }

    fn copy(count: u64) -> Argument<'static> {
        Argument::Copy(CopyArgs {
            src_stateid: STATEID,
            dst_stateid: STATEID,
            src_offset: 0,
            dst_offset: 0,
            count,
            consecutive: true,
            synchronous: true,
            source_server: vec![],
        })
    }

    fn args_of(operations: &[Argument<'_>]) -> Vec<u8> {
        let count = u32::try_from(operations.len()).unwrap();
        let head = CompoundHead { tag: b"", minorversion: 1, operations: count };
        head.to_bytes().into_iter().chain(operations.iter().flat_map(Argument::to_bytes)).collect()
    }

    /// The demand of these operations behind a PUTFH.
    fn demand_of<'a>(operations: impl IntoIterator<Item = Argument<'a>>) -> Demand {
        let operations: Vec<Argument<'_>> = [put(b"handle")].into_iter().chain(operations).collect();
        let args = args_of(&operations);
        let segment = first_segment(&args).unwrap();
        assert_eq!(segment.handle, Some(&b"handle"[..]));
        segment.demand
    }

    #[test]
    fn compound_pays_for_each_operation_that_does_work() {
        assert_eq!(demand_of([Argument::Getfh, Argument::Savefh]), Demand::NOTHING);
        assert_eq!(demand_of([read(4096), read(4096)]), Demand { reads: 2, ..Demand::read(8192) });
        assert_eq!(
            demand_of([read(u32::MAX), read(u32::MAX), read(9)]),
            Demand { reads: 3, ..Demand::read(2 << 20) }
        );
        assert_eq!(demand_of([read(10), write(&[7; 100])]), Demand::read(10).and(Demand::write(100)));
        let copied = |bytes| Demand::read(bytes).and(Demand::write(bytes));
        assert_eq!(demand_of([copy(1000)]), copied(1000));
        let most = u32::try_from(COPY_PAID_BYTES_MAX).unwrap();
        assert_eq!(demand_of([copy(0)]), copied(most), "all there is");
        assert_eq!(demand_of([Argument::Readlink]), Demand::list(PATH_MAX));
        let xattr = Argument::Getxattr(GetxattrArgs { name: b"a" });
        assert_eq!(demand_of([xattr]), Demand::list(XATTR_MAX));
        assert_eq!(demand_of((0..63).map(|_| Argument::Lookupp)), Demand { others: 63, ..Demand::OTHER });
    }

    #[test]
    fn attributes_are_free_with_another_operation_and_cost_by_themselves() {
        assert_eq!(demand_of([getattr()]), Demand::OTHER);
        assert_eq!(demand_of([access(), getattr()]), Demand::OTHER);
        assert_eq!(demand_of((0..63).map(|_| getattr())), Demand { others: 63, ..Demand::OTHER });
        assert_eq!(demand_of([read(1), access(), getattr()]), Demand::read(1));
        assert_eq!(demand_of([write(b"1234"), getattr()]), Demand::write(4));
        let two = Demand { others: 1, ..Demand::read(1) };
        assert_eq!(demand_of([read(1), getattr(), getattr()]), two);
        assert_eq!(demand_of([Argument::Lookupp, Argument::Getfh, getattr()]), Demand::OTHER);
        // A POSIX ACL can have any length.
        for list in LISTS {
            let attr_request = Bitmap::of(&[attr::TYPE, list]);
            let getattr = Argument::Getattr(GetattrArgs { attr_request });
            let price = Demand::list(XATTR_MAX);
            assert_eq!(Price::of(&getattr), Price::Demand(price));
            assert_eq!(demand_of([read(1), getattr]), price.and(Demand::read(1)));
        }
    }

    #[test]
    fn segment_ends_where_another_export_may_begin() {
        let (one, other) = (&[1; 40][..], &[2; 40][..]);
        let operations = [put(one), read(10), put(one), read(5), put(other), read(100), put(one), read(7)];
        let args = args_of(&operations);
        let first = first_segment(&args).unwrap();
        assert_eq!((first.handle, first.demand), (Some(one), Demand { reads: 2, ..Demand::read(15) }));
        let place = |number: usize| args_of(&operations[..number]).len();
        assert!((place(3) + 1..=place(4)).contains(&first.until));
        let start = SegmentStart {
            at: place(5),
            operations: 3,
            export: HandleSigner::claimed_export(other),
            ..SegmentStart::default()
        };
        assert_eq!(segment(&args, start).demand, Demand::read(100));
        let root = args_of(&[Argument::Putrootfh, put(one), read(10)]);
        assert_eq!(first_segment(&root).unwrap().handle, None, "it pays where it comes to");
    }

    #[test]
    fn each_copy_of_a_compound_pays_for_what_it_copies() {
        let bytes = u32::try_from(COPY_PAID_BYTES_MAX).unwrap();
        let operations: Vec<_> = [put(b"handle")].into_iter().chain((0..60).map(|_| copy(0))).collect();
        let args = args_of(&operations);
        let one = Demand::read(bytes).and(Demand::write(bytes));
        let first = first_segment(&args).unwrap();
        assert_eq!(first.demand, one);
        let begins = args_of(&operations[..2]).len();
        assert!(first.until <= begins, "the second pays when it is reached");
        let start = SegmentStart {
            at: begins,
            operations: 59,
            export: HandleSigner::claimed_export(b"handle"),
            ..SegmentStart::default()
        };
        let second = segment(&args, start);
        assert_eq!(second.demand, one);
        assert!((begins + 1..=args_of(&operations[..3]).len()).contains(&second.until));
    }

    #[test]
    fn arguments_that_end_early_pay_for_the_part_that_can_be_read() {
        let mut args = args_of(&[put(b"handle"), read(100)]);
        let whole = args.len();
        args.extend(read(100).to_bytes().split_at(20).0);
        args[11] = 9;
        let segment = first_segment(&args).unwrap();
        assert_eq!(segment.demand, Demand::read(100));
        assert!(segment.until <= whole);
        assert!(first_segment(&args[..10]).is_none());
        // The data of a long WRITE, and the operations after it, are missing.
        let data = [7; 1000];
        let mut args = args_of(&[put(b"handle"), write(&data), read(50)]);
        args.truncate(args.len() - 500);
        let segment = first_segment(&args).unwrap();
        assert_eq!(segment.demand, Demand::write(1000));
        assert_eq!(segment.until, args_of(&[put(b"handle")]).len() + 1);
    }
}

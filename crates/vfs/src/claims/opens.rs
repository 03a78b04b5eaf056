//! The opens of one file, by number and by share mode.

use super::entries::Open;
use super::{Access, LeaseKey, Link, OpenId, Rights, Stream};
use crate::qos::Nanos;
use crate::small_map::{SmallMap, SmallSet};
use std::ops::Bound;

#[derive(Debug, Default)]
pub(super) struct Opens {
    /// Boxed: a map node has room for eleven opens, and most files have at most two.
    all: SmallMap<OpenId, Box<Open>>,
    alike: SmallSet<(Stream, Access, OpenId)>,
    of_leases: SmallSet<(LeaseKey, Stream, OpenId)>,
    /// Opens that wait for their client, by deadline.
    until: SmallSet<(Nanos, OpenId)>,
    counts: OpenCounts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OpenCounts {
    pub denying_reads: usize,
    pub denying_writes: usize,
    pub mandatory: usize,
    pub deleting: usize,
    /// Opens of named streams that keep others from deleting.
    pub keeping_streams: usize,
}

impl OpenCounts {
    fn each(&mut self, open: &Open) -> [(&mut usize, bool); 5] {
        let keeps = open.access.has_data() && open.access.deny.intersects(Rights::DELETE);
        [
            (&mut self.denying_reads, open.denies(Rights::READ)),
            (&mut self.denying_writes, open.denies(Rights::WRITE)),
            (&mut self.mandatory, open.is_mandatory),
            (&mut self.deleting, open.delete_on_close.is_some()),
            (&mut self.keeping_streams, keeps && open.stream != Stream::default()),
        ]
    }
}

impl Opens {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn counts(&self) -> OpenCounts {
        self.counts
    }

    /// Returns all opens, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Open> {
        self.all.iter().map(|(_, open)| &**open)
    }

    pub(super) fn get(&self, id: OpenId) -> Option<&Open> {
        self.all.get(&id).map(|open| &**open)
    }

    pub(super) fn insert(&mut self, open: Open) {
        self.insert_boxed(Box::new(open));
    }

    pub(super) fn remove(&mut self, id: OpenId) -> Option<Open> {
        self.remove_boxed(id).map(|open| *open)
    }

    pub(super) fn change<R>(&mut self, id: OpenId, change: impl FnOnce(&mut Open) -> R) -> Option<R> {
        let mut open = self.remove_boxed(id)?;
        let answer = change(&mut open);
        self.insert_boxed(open);
        Some(answer)
    }

    fn insert_boxed(&mut self, open: Box<Open>) {
        self.alike.insert((open.stream, open.access, open.id));
        self.of_leases.extend(open.lease.map(|key| (key, open.stream, open.id)));
        if let Some(durable) = open.disconnected {
            self.until.insert((durable.until, open.id));
        }
        self.counts.each(&open).into_iter().for_each(|(count, is)| *count += usize::from(is));
        self.all.insert(open.id, open);
    }

    fn remove_boxed(&mut self, id: OpenId) -> Option<Box<Open>> {
        let open = self.all.remove(&id)?;
        self.alike.remove(&(open.stream, open.access, id));
        if let Some(key) = open.lease {
            self.of_leases.remove(&(key, open.stream, id));
        }
        if let Some(durable) = open.disconnected {
            self.until.remove(&(durable.until, id));
        }
        self.counts.each(&open).into_iter().for_each(|(count, is)| *count -= usize::from(is));
        Some(open)
    }

    /// Each combination of rights and denials of the opens, from those of `stream` on.
    fn kinds_from(&self, stream: Stream) -> impl Iterator<Item = (Stream, Access)> {
        let first = self.alike.range((stream, Access::default(), OpenId(0))..).next();
        let kind = |&(stream, access, _): &(Stream, Access, OpenId)| (stream, access);
        std::iter::successors(first.map(kind), move |&(stream, access)| {
            let last = (stream, access, OpenId(u64::MAX));
            self.alike.range((Bound::Excluded(last), Bound::Unbounded)).next().map(kind)
        })
    }

    fn kinds_of(&self, stream: Stream) -> impl Iterator<Item = Access> {
        let kinds = self.kinds_from(stream);
        kinds.take_while(move |(of, _)| *of == stream).map(|(_, access)| access)
    }

    fn of_kind(&self, stream: Stream, access: Access) -> impl Iterator<Item = OpenId> {
        let all = (stream, access, OpenId(0))..=(stream, access, OpenId(u64::MAX));
        self.alike.range(all).map(|(.., id)| *id)
    }

    /// Returns the opens with a lease, oldest first.
    pub(super) fn of_lease(&self, key: LeaseKey, stream: Stream) -> impl Iterator<Item = &Open> {
        let all = (key, stream, OpenId(0))..=(key, stream, OpenId(u64::MAX));
        self.of_leases.range(all).filter_map(|(.., id)| self.get(*id))
    }

    pub(super) fn has_stream(&self, stream: Stream) -> bool {
        self.kinds_of(stream).next().is_some()
    }

    pub(super) fn of_stream(&self, stream: Stream) -> impl Iterator<Item = &Open> {
        let of_kind = move |access| self.of_kind(stream, access);
        self.kinds_of(stream).flat_map(of_kind).filter_map(|id| self.get(id))
    }

    /// Returns the opens of a stream that deny requesters without an open.
    pub(super) fn denying(&self, stream: Stream, rights: Rights) -> impl Iterator<Item = &Open> {
        let kinds =
            self.kinds_of(stream).filter(move |access| access.has_data() && access.deny.intersects(rights));
        let opens = kinds.flat_map(move |access| self.of_kind(stream, access)).filter_map(|id| self.get(id));
        opens.filter(move |open| open.denies(rights))
    }

    /// The opens that conflict with an open of a stream with this access, oldest first.
    /// An open of the file that deletes it also deletes its streams (MS-FSA 2.1.5.1.2.2).
    pub(super) fn against(&self, stream: Stream, access: Access) -> Vec<OpenId> {
        let whole = Stream::default();
        let mut kinds: Vec<(Stream, Access)> = Vec::new();
        kinds.extend(
            self.kinds_of(stream).filter(|other| access.conflicts(*other)).map(|other| (stream, other)),
        );
        if stream != whole {
            let deleting = self.kinds_of(whole).filter(|other| other.deletes_under(access));
            kinds.extend(deleting.map(|other| (whole, other)));
        } else if self.counts.keeping_streams > 0 {
            kinds.extend(
                self.kinds_from(whole).filter(|(of, other)| *of != whole && access.deletes_under(*other)),
            );
        }
        let ids = kinds.into_iter().flat_map(|(stream, access)| self.of_kind(stream, access));
        let mut found: Vec<OpenId> = ids.collect();
        found.sort_unstable();
        found
    }

    /// Returns the delete-on-close names.
    pub(super) fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        let opens = (self.counts.deleting > 0).then(|| self.all.values_mut());
        opens.into_iter().flatten().filter_map(|open| open.delete_on_close.as_mut())
    }

    pub(super) fn next_until(&self) -> Option<Nanos> {
        self.until.first().map(|(until, _)| *until)
    }

    pub(super) fn overdue(&self, now: Nanos) -> Option<OpenId> {
        self.until.first().filter(|(until, _)| *until <= now).map(|(_, id)| *id)
    }

    #[cfg(test)]
    pub(super) fn assert_sound(&self) {
        let mut counts = OpenCounts::default();
        for open in self.iter() {
            assert!(self.alike.contains(&(open.stream, open.access, open.id)));
            counts.each(open).into_iter().for_each(|(count, is)| *count += usize::from(is));
        }
        assert_eq!(counts, self.counts);
        assert_eq!(self.alike.len(), self.len());
        let leased = self.iter().filter_map(|open| Some((open.lease?, open.stream, open.id)));
        let mut leased: Vec<_> = leased.collect();
        leased.sort_unstable();
        assert!(self.of_leases.iter().eq(&leased));
        let waiting = self.iter().filter(|open| open.disconnected.is_some()).count();
        assert_eq!(self.until.len(), waiting);
    }
}

//! The opens of one file, by number and by what share modes ask of them.

use super::held::Open;
use super::{Access, Link, OpenId, Rights, Stream};
use crate::qos::Nanos;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Opens {
    all: BTreeMap<OpenId, Open>,
    alike: BTreeMap<(Stream, Access), BTreeSet<OpenId>>,
    /// Those that wait for their client, by how long they do.
    until: BTreeSet<(Nanos, OpenId)>,
    counts: OpenCounts,
}

/// How many opens there are of some kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OpenCounts {
    pub denying_reads: usize,
    pub denying_writes: usize,
    pub mandatory: usize,
    pub deleting: usize,
    /// Of named streams, which keep others from deleting.
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

    /// All of them, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Open> {
        self.all.values()
    }

    pub(super) fn get(&self, id: OpenId) -> Option<&Open> {
        self.all.get(&id)
    }

    pub(super) fn insert(&mut self, open: Open) {
        self.note(&open);
        self.all.insert(open.id, open);
    }

    pub(super) fn remove(&mut self, id: OpenId) -> Option<Open> {
        let open = self.all.remove(&id)?;
        self.forget(&open);
        Some(open)
    }

    /// Changes an open, if it is here.
    pub(super) fn change<R>(&mut self, id: OpenId, change: impl FnOnce(&mut Open) -> R) -> Option<R> {
        let mut open = self.remove(id)?;
        let answer = change(&mut open);
        self.insert(open);
        Some(answer)
    }

    fn note(&mut self, open: &Open) {
        self.alike.entry((open.stream, open.access)).or_default().insert(open.id);
        if let Some(durable) = open.disconnected {
            self.until.insert((durable.until, open.id));
        }
        self.counts.each(open).into_iter().for_each(|(count, is)| *count += usize::from(is));
    }

    fn forget(&mut self, open: &Open) {
        let alike = (open.stream, open.access);
        if let Some(ids) = self.alike.get_mut(&alike) {
            ids.remove(&open.id);
            if ids.is_empty() {
                self.alike.remove(&alike);
            }
        }
        if let Some(durable) = open.disconnected {
            self.until.remove(&(durable.until, open.id));
        }
        self.counts.each(open).into_iter().for_each(|(count, is)| *count -= usize::from(is));
    }

    /// The opens of a stream, by what they may do and deny.
    fn alike_of(&self, stream: Stream) -> impl Iterator<Item = (Access, &BTreeSet<OpenId>)> {
        let all = self.alike.range((stream, Access::default())..);
        all.take_while(move |((of, _), _)| *of == stream).map(|((_, access), ids)| (*access, ids))
    }

    /// Whether any of a stream is open.
    pub(super) fn has_stream(&self, stream: Stream) -> bool {
        self.alike_of(stream).next().is_some()
    }

    /// The opens of a stream.
    pub(super) fn of_stream(&self, stream: Stream) -> impl Iterator<Item = &Open> {
        self.alike_of(stream).flat_map(|(_, ids)| ids).filter_map(|id| self.all.get(id))
    }

    /// The opens of a stream that keep callers without one from this.
    pub(super) fn denying(&self, stream: Stream, rights: Rights) -> impl Iterator<Item = &Open> {
        let denies = move |access: Access| access.has_data() && access.deny.intersects(rights);
        let alike = self.alike_of(stream).filter(move |(access, _)| denies(*access));
        let opens = alike.flat_map(|(_, ids)| ids).filter_map(|id| self.all.get(id));
        opens.filter(move |open| open.denies(rights))
    }

    /// The opens that cannot be beside one of a stream with this access, the oldest first. An open of the file that deletes it deletes
    /// all of its streams (MS-FSA 2.1.5.1.2.2).
    pub(super) fn against(&self, stream: Stream, access: Access) -> Vec<OpenId> {
        let whole = Stream::default();
        let mut found: Vec<OpenId> = Vec::new();
        let own = self.alike_of(stream).filter(|(other, _)| access.conflicts(*other));
        own.for_each(|(_, ids)| found.extend(ids));
        if stream != whole {
            let deleting = self.alike_of(whole).filter(|(other, _)| other.deletes_under(access));
            deleting.for_each(|(_, ids)| found.extend(ids));
        } else if self.counts.keeping_streams > 0 {
            let streams =
                self.alike.iter().filter(|((of, other), _)| *of != whole && access.deletes_under(*other));
            streams.for_each(|(_, ids)| found.extend(ids));
        }
        found.sort_unstable();
        found
    }

    /// The names that go with opens.
    pub(super) fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        let opens = (self.counts.deleting > 0).then(|| self.all.values_mut());
        opens.into_iter().flatten().filter_map(|open| open.delete_on_close.as_mut())
    }

    /// When the first waits for its client no longer.
    pub(super) fn next_until(&self) -> Option<Nanos> {
        self.until.first().map(|(until, _)| *until)
    }

    /// One whose time for its client is over.
    pub(super) fn overdue(&self, now: Nanos) -> Option<OpenId> {
        self.until.first().filter(|(until, _)| *until <= now).map(|(_, id)| *id)
    }

    #[cfg(test)]
    pub(super) fn assert_sound(&self) {
        let mut counts = OpenCounts::default();
        for open in self.iter() {
            assert!(self.alike[&(open.stream, open.access)].contains(&open.id));
            counts.each(open).into_iter().for_each(|(count, is)| *count += usize::from(is));
        }
        assert_eq!(counts, self.counts);
        assert_eq!(self.alike.values().map(BTreeSet::len).sum::<usize>(), self.len());
        let waiting = self.iter().filter(|open| open.disconnected.is_some()).count();
        assert_eq!(self.until.len(), waiting);
    }
}

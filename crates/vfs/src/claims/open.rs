//! Opens: share modes, durable opens, deletion on close.

use super::entries::{CLAIMS_MAX, Deletion, Lease, Open, Range};
use super::file::FileClaims;
use super::step::{Actor, Step, granted};
use super::{
    Access, Caching, Conflict, Durable, Effect, Granted, HolderId, LeaseKey, LeaseKind, LeaseRequest, Link,
    LockOwner, OpenId, OpenRequest, RestoreRequest, RevokedClaim, Rights, Span, Stream, Verdict,
};
use std::collections::{HashMap, HashSet};

impl Access {
    /// Whether share modes apply.
    pub(super) fn has_data(self) -> bool {
        self.rights.intersects(Rights::DATA)
    }

    /// Whether an open of the file with this access would delete a stream under one that keeps it.
    pub(super) fn deletes_under(self, of_stream: Self) -> bool {
        self.rights.contains(Rights::DELETE)
            && of_stream.has_data()
            && of_stream.deny.intersects(Rights::DELETE)
    }

    /// Whether two opens conflict. Opens without data rights never do (MS-FSA 2.1.5.1.2.2).
    pub fn conflicts(self, other: Self) -> bool {
        self.has_data()
            && other.has_data()
            && (self.rights.intersects(other.deny) || other.rights.intersects(self.deny))
    }
}

impl Open {
    pub(super) fn actor(&self) -> Actor {
        Actor { holder: Some(self.holder), open: Some(self.id), key: self.lease }
    }

    /// Whether any conflict ends this open.
    pub(super) fn yields(&self, step: &Step<'_>) -> bool {
        step.lapsed.contains(&self.holder) || self.is_durable()
    }

    /// Whether this open denies the access to requesters without an open.
    pub(super) fn denies(&self, rights: Rights) -> bool {
        !self.is_advisory && self.access.has_data() && self.access.deny.intersects(rights)
    }

    /// Whether this open deletes a stream once all opens are closed.
    fn deletes(&self, stream: Stream) -> bool {
        self.delete_on_close.is_some() && (self.stream == stream || self.stream == Stream::default())
    }

    /// Whether the open waits for its client, until another request conflicts with it.
    pub(super) fn is_durable(&self) -> bool {
        self.disconnected.is_some_and(|durable| !durable.is_persistent)
    }
}

impl FileClaims {
    pub(super) fn open_of(&self, id: OpenId) -> Option<&Open> {
        self.opens.get(id)
    }

    pub(super) fn open(&mut self, step: &mut Step<'_>, request: &OpenRequest) -> Verdict {
        let OpenRequest { holder, stream, access, .. } = *request;
        if self.is_deleted(stream) {
            // An open that waits for its client preserves a deleted file until another client wants the file.
            self.revoke_deleted(step, |step, open| open.yields(step));
            return Verdict::Refused(Conflict::DeletePending);
        }
        let writes = access.rights.intersects(Rights::WRITE) || request.truncates;
        if writes && !request.is_mandatory && !request.reclaims && self.is_deleted_on_close(stream) {
            // With mandatory ranges, clients know that an open shares the deletion; other protocols cannot report that.
            self.revoke_deleting(step, stream);
            return Verdict::Refused(Conflict::DeletePending);
        }
        if !step.users.has_room(holder, self.opens.len(), || self.opens.iter().map(|open| open.holder)) {
            return Verdict::Refused(Conflict::TooMany);
        }
        let key = request.lease.and_then(|lease| match lease.kind {
            LeaseKind::Shared { client, key } => Some(LeaseKey::Shared { client, key }),
            LeaseKind::Oplock | LeaseKind::Delegation => None,
        });
        let actor = Actor { holder: Some(holder), open: None, key };
        let waits = request.waits && !request.reclaims;
        if let Some(verdict) = self.make_way(step, actor, stream, access, request.truncates, waits) {
            return verdict;
        }
        // An open that has yielded may have been the last one of a file to delete.
        if self.is_deleted(stream) {
            return Verdict::Refused(Conflict::DeletePending);
        }
        let id = OpenId(step.id());
        step.touched.push(holder);
        let OpenRequest { is_mandatory, is_advisory, .. } = *request;
        self.opens.insert(Open {
            id,
            holder,
            stream,
            access,
            lease: key,
            is_mandatory,
            is_advisory,
            disconnected: None,
            delete_on_close: None,
        });
        let mut granted = Granted { open: Some(id), ..Granted::default() };
        if let Some(wanted) = request.lease {
            self.grant_lease(step, id, wanted, &mut granted);
        }
        Verdict::Granted(granted)
    }

    /// The name to delete with the last open of a stream or file; `None` if no deletion is decided.
    pub(super) fn deletion_of(&self, stream: Stream) -> Option<Link> {
        self.deletions.iter().find(|gone| gone.stream == stream).map(|gone| gone.link.clone())
    }

    pub(super) fn is_deleted(&self, stream: Stream) -> bool {
        self.deletions.iter().any(|gone| gone.stream == stream || gone.stream == Stream::default())
    }

    /// Whether a close by others deletes the stream while `actor` has no open of it.
    pub(super) fn is_pending_deletion(&self, stream: Stream, actor: Actor) -> bool {
        let has_open = actor.open.is_some()
            || actor.holder.is_some_and(|holder| self.opens.iter().any(|open| open.holder == holder));
        !has_open && (self.is_deleted(stream) || self.is_deleted_on_close(stream))
    }

    fn is_deleted_on_close(&self, stream: Stream) -> bool {
        self.opens.iter().any(|open| open.deletes(stream))
    }

    /// Revokes delete-on-close opens that yield.
    pub(super) fn revoke_deleting(&mut self, step: &mut Step<'_>, stream: Stream) {
        let gives_way = |open: &&Open| open.deletes(stream) && open.yields(step);
        let yielding: Vec<OpenId> = self.opens.iter().filter(gives_way).map(|open| open.id).collect();
        yielding.into_iter().for_each(|open| self.revoke_open(step, open));
    }

    pub(super) fn granted_of(&self, id: OpenId) -> Option<Granted> {
        let open = self.open_of(id)?;
        let mut granted = Granted { open: Some(id), ..Granted::default() };
        let is_its = |lease: &&Lease| Some(lease.key) == open.lease && lease.stream == open.stream;
        if let Some(lease) = self.leases.iter().find(is_its) {
            lease.describe(&mut granted);
        }
        Some(granted)
    }

    pub(super) fn access_of(&self, id: OpenId) -> Option<Access> {
        self.open_of(id).map(|open| open.access)
    }

    /// Resolves the conflicts of a new open: share modes, then caches.
    fn make_way(
        &mut self,
        step: &mut Step<'_>,
        actor: Actor,
        stream: Stream,
        access: Access,
        truncates: bool,
        waits: bool,
    ) -> Option<Verdict> {
        if let Some(verdict) = self.check_share(step, actor, stream, access, waits) {
            return Some(verdict);
        }
        if access.rights.is_none() && !truncates {
            return None;
        }
        // A delegation alone does not preserve a file that goes with another's open.
        let changes = Rights::WRITE | Rights::DELETE;
        let is_seen_by_readers =
            truncates || access.rights.intersects(changes) || access.deny.intersects(Rights::READ);
        // Oplocks end where leases stay (MS-FSA 2.1.4.12).
        let reads_descriptor = access.rights == Rights::DESCRIPTOR && !truncates;
        let must_go = |lease: &Lease| match lease.key {
            LeaseKey::Oplock(_) if reads_descriptor => Caching::WRITE,
            _ if reads_descriptor => Caching::NONE,
            // Who has a delegation opens the file without asking (RFC 8881 §10.4).
            LeaseKey::Delegation(_) if is_seen_by_readers => lease.have,
            _ if truncates => Caching::READ | Caching::WRITE,
            _ => Caching::WRITE,
        };
        self.break_leases(step, actor, stream, must_go)
            .then(|| self.wait_for_recall(step, actor.holder, waits))
    }

    /// Checks share modes. First recalls handle caches of opens that only cache a handle.
    pub(super) fn check_share(
        &mut self,
        step: &mut Step<'_>,
        actor: Actor,
        stream: Stream,
        access: Access,
        waits: bool,
    ) -> Option<Verdict> {
        loop {
            let mut conflicting = self.opens.against(stream, access);
            conflicting.retain(|open| Some(*open) != actor.open);
            for open in &conflicting {
                if self.open_of(*open).is_some_and(|open| open.yields(step)) {
                    self.revoke_open(step, *open);
                }
            }
            let conflicting: Vec<&Open> =
                conflicting.iter().filter_map(|open| self.opens.get(*open)).collect();
            if conflicting.is_empty() {
                return None;
            }
            // The first of each key, so that each open finds its own at once.
            let mut leases: HashMap<LeaseKey, (usize, &Lease)> = HashMap::new();
            for (at, lease) in self.leases.iter().enumerate().filter(|(_, lease)| lease.stream == stream) {
                leases.entry(lease.key).or_insert((at, lease));
            }
            let keeping = |open: &Open| {
                let keys = [open.lease, Some(LeaseKey::Delegation(open.holder))];
                keys.into_iter().flatten().filter_map(|key| leases.get(&key))
            };
            let may_close = |open: &&Open| {
                let keeper = keeping(open).min_by_key(|(at, _)| *at);
                keeper.is_some_and(|(_, lease)| !lease.exempts(actor) && lease.have.contains(Caching::HANDLE))
            };
            if !conflicting.iter().all(may_close) {
                let is_absent = conflicting.iter().all(|open| open.disconnected.is_some());
                return Some(Verdict::Refused(if is_absent { Conflict::Absent } else { Conflict::Share }));
            }
            let keys: HashSet<LeaseKey> =
                conflicting.iter().flat_map(|open| keeping(open)).map(|(_, lease)| lease.key).collect();
            let must_go =
                |lease: &Lease| if keys.contains(&lease.key) { Caching::HANDLE } else { Caching::NONE };
            if self.break_leases(step, actor, stream, must_go) {
                return Some(self.wait_for_recall(step, actor.holder, waits));
            }
            // No holder was connected to answer a recall; conflicting opens have been revoked.
        }
    }

    pub(super) fn upgrade(&mut self, step: &mut Step<'_>, id: OpenId, more: Access, waits: bool) -> Verdict {
        let Some(open) = self.open_of(id) else { return Verdict::Refused(Conflict::NotHeld) };
        let (actor, stream) = (open.actor(), open.stream);
        let access = Access { rights: open.access.rights | more.rights, deny: open.access.deny | more.deny };
        if let Some(verdict) = self.make_way(step, actor, stream, access, false, waits) {
            return verdict;
        }
        self.opens.change(id, |open| open.access = access);
        granted()
    }

    pub(super) fn downgrade(&mut self, id: OpenId, access: Access) -> Verdict {
        let Some(open) = self.open_of(id) else { return Verdict::Refused(Conflict::NotHeld) };
        if !open.access.rights.contains(access.rights) || !open.access.deny.contains(access.deny) {
            return Verdict::Refused(Conflict::Denied);
        }
        self.opens.change(id, |open| open.access = access);
        self.is_released = true;
        granted()
    }

    pub(super) fn close(&mut self, step: &mut Step<'_>, id: OpenId) -> Verdict {
        match self.remove_open(step, id) {
            Some(_) => granted(),
            None => Verdict::Refused(Conflict::NotHeld),
        }
    }

    pub(super) fn close_listed(
        &mut self,
        step: &mut Step<'_>,
        id: OpenId,
        listing: Option<LeaseKey>,
    ) -> Verdict {
        let Some(open) = self.remove_open(step, id) else { return Verdict::Refused(Conflict::NotHeld) };
        let is_last = !self.opens.has_stream(open.stream);
        let of_others =
            |gone: &&mut Deletion| is_last && gone.stream == open.stream && gone.link.listing != listing;
        self.deletions.iter_mut().filter(of_others).for_each(|gone| gone.link.listing = None);
        granted()
    }

    /// Removes an open and its ranges. Removes its lease too if this was the last open of the lease.
    pub(super) fn remove_open(&mut self, step: &mut Step<'_>, id: OpenId) -> Option<Open> {
        let mut open = self.opens.remove(id)?;
        self.remove_ranges_with(id);
        if let Some(link) = open.delete_on_close.take() {
            self.delete_later(open.stream, link);
            // Recalls handle caches of the deleted file, without waiting.
            self.break_leases(step, open.actor(), open.stream, |_| Caching::HANDLE);
        }
        if let Some(key) = open.lease {
            self.pass_lease(step, key, open.stream);
        }
        self.is_released = true;
        Some(open)
    }

    pub(super) fn revoke_open(&mut self, step: &mut Step<'_>, id: OpenId) {
        if let Some(open) = self.remove_open(step, id) {
            step.revoked(open.holder, RevokedClaim::Open(id));
        }
    }

    pub(super) fn disconnect(&mut self, step: &mut Step<'_>, id: OpenId, durable: Durable) -> Verdict {
        let disconnect = |open: &mut Open| {
            open.disconnected = Some(durable);
            (open.lease, open.stream)
        };
        let Some((lease, stream)) = self.opens.change(id, disconnect) else {
            return Verdict::Refused(Conflict::NotHeld);
        };
        self.recheck_behind_ranges_of(id);
        if let Some(key) = lease {
            self.pass_lease(step, key, stream);
        }
        // Requests that wait for its lease need not wait for an answer.
        self.is_released = true;
        granted()
    }

    pub(super) fn reconnect(&mut self, step: &mut Step<'_>, id: OpenId, holder: HolderId) -> Verdict {
        let reconnect = |open: &mut Open| {
            open.disconnected = None;
            open.holder = holder;
            (open.stream, open.lease)
        };
        if self.open_of(id).is_none_or(|open| open.disconnected.is_none()) {
            return Verdict::Refused(Conflict::NotHeld);
        }
        let Some((stream, lease)) = self.opens.change(id, reconnect) else {
            return Verdict::Refused(Conflict::NotHeld);
        };
        step.touched.push(holder);
        self.pass_ranges(id, holder);
        let lease = self.leases.iter_mut().find(|have| Some(have.key) == lease && have.stream == stream);
        let mut granted = Granted { open: Some(id), ..Granted::default() };
        if let Some(lease) = lease {
            lease.holder = holder;
            lease.describe(&mut granted);
            // Nobody was there to hear it.
            lease.resend_recalls(step);
        }
        Verdict::Granted(granted)
    }

    pub(super) fn restore(&mut self, step: &mut Step<'_>, request: &RestoreRequest) -> Verdict {
        if self.opens.len() >= CLAIMS_MAX || self.ranges.len() + request.ranges.len() > CLAIMS_MAX {
            return Verdict::Refused(Conflict::TooMany);
        }
        let RestoreRequest { holder, stream, access, durable, .. } = *request;
        let id = OpenId(step.id());
        step.touched.push(holder);
        self.opens.insert(Open {
            id,
            holder,
            stream,
            access,
            lease: None,
            is_mandatory: true,
            is_advisory: false,
            disconnected: Some(durable),
            delete_on_close: request.delete_on_close.clone(),
        });
        let (owner, open) = (LockOwner { holder, owner: id.0 }, id);
        let range = |id, &(span, is_exclusive): &(Span, bool)| Range {
            id,
            owner,
            open: Some(open),
            stream,
            span,
            is_exclusive,
            is_enforced: true,
            reserved_until: None,
        };
        for held in &request.ranges {
            let range = range(step.id(), held);
            self.ranges.insert(range);
        }
        if let Some(link) = &request.deletion {
            self.delete_later(stream, link.clone());
        }
        Verdict::Granted(Granted { open: Some(id), ..Granted::default() })
    }

    pub(super) fn recache(&mut self, step: &mut Step<'_>, id: OpenId, lease: LeaseRequest) -> Verdict {
        let mut granted = Granted { open: Some(id), ..Granted::default() };
        if self.open_of(id).is_none() {
            return Verdict::Refused(Conflict::NotHeld);
        }
        self.grant_lease(step, id, lease, &mut granted);
        Verdict::Granted(granted)
    }

    pub(super) fn set_delete(
        &mut self,
        step: &mut Step<'_>,
        id: OpenId,
        link: Option<&Link>,
        waits: bool,
    ) -> Verdict {
        let Some(open) = self.open_of(id) else { return Verdict::Refused(Conflict::NotHeld) };
        if !open.access.rights.contains(Rights::DELETE) {
            return Verdict::Refused(Conflict::Denied);
        }
        let (actor, stream) = (open.actor(), open.stream);
        let Some(link) = link else {
            self.deletions.retain(|gone| gone.stream != stream);
            return granted();
        };
        // MS-FSA 2.1.5.15.3: handle caches of the file are recalled.
        if self.break_leases(step, actor, stream, |_| Caching::HANDLE) {
            return self.wait_for_recall(step, actor.holder, waits);
        }
        self.delete_later(stream, link.clone());
        granted()
    }

    pub(super) fn delete_on_close(&mut self, id: OpenId, link: &Link) -> Verdict {
        let Some(open) = self.open_of(id) else { return Verdict::Refused(Conflict::NotHeld) };
        if !open.access.rights.contains(Rights::DELETE) {
            return Verdict::Refused(Conflict::Denied);
        }
        self.opens.change(id, |open| open.delete_on_close = Some(link.clone()));
        granted()
    }

    /// Follows a rename: a pending deletion removes the current name. A removal that has begun still looks for the old
    /// one.
    pub(super) fn relink(&mut self, from: &Link, to: &Link) -> Verdict {
        let deletions = self.deletions.iter_mut().map(|gone| &mut gone.link);
        for link in deletions.chain(self.opens.links_mut()).filter(|link| link.names(from)) {
            (link.parent, link.name) = (to.parent, to.name.clone());
        }
        granted()
    }

    fn delete_later(&mut self, stream: Stream, link: Link) {
        self.deletions.retain(|gone| gone.stream != stream);
        self.deletions.push(Deletion { stream, link, is_begun: false });
        self.is_deleting = true;
    }

    /// Revokes the remaining opens of a file to delete, if all of them may be revoked.
    pub(super) fn revoke_deleted(&mut self, step: &mut Step<'_>, is_such: impl Fn(&Step<'_>, &Open) -> bool) {
        let open_of = |gone: &Deletion| (gone.stream, gone.stream == Stream::default());
        let deleted: Vec<(Stream, bool)> =
            self.deletions.iter().filter(|gone| !gone.is_begun).map(open_of).collect();
        for (stream, is_whole) in deleted {
            let opens = || {
                let (all, some) = if is_whole { (true, None) } else { (false, Some(stream)) };
                let of_file = all.then(|| self.opens.iter()).into_iter().flatten();
                of_file.chain(some.into_iter().flat_map(|stream| self.opens.of_stream(stream)))
            };
            if opens().all(|open| is_such(step, open)) {
                let remaining: Vec<OpenId> = opens().map(|open| open.id).collect();
                remaining.into_iter().for_each(|open| self.revoke_open(step, open));
            }
        }
    }

    /// Hands the names of deleted files without opens to the volume. The file goes with the last of its streams. Until
    /// the volume has removed a name, opens of it are refused: the file would be deleted under them.
    pub(super) fn remove_deleted(&mut self, step: &mut Step<'_>) {
        // Nobody deletes in vain because of a client that is not heard of any more.
        self.revoke_deleted(step, |step, open| step.lapsed.contains(&open.holder));
        let whole = Stream::default();
        let opens = &self.opens;
        let is_open = |stream| if stream == whole { !opens.is_empty() } else { opens.has_stream(stream) };
        let is_over = |gone: &&mut Deletion| !gone.is_begun && !is_open(gone.stream);
        for gone in self.deletions.iter_mut().filter(is_over) {
            gone.is_begun = true;
            let (stream, link) = (gone.stream, gone.link.clone());
            step.effects.push(Effect::Remove { file: step.file, stream, link });
        }
    }

    /// Ends a removal by the volume, successful or not.
    pub(super) fn removed(&mut self, stream: Stream) {
        self.deletions.retain(|gone| !gone.is_begun || gone.stream != stream);
    }
}

//! The calls of a load over NFSv3: what is the same for all of a kind, and what follows it.

use nfs_wire::rpc::RecordMark;
use nfs_wire::v3::{Access, CreateHow, PROGRAM, Procedure, Sattr, VERSION};
use xdr::Encode;

use super::call::{Call, LISTING_MAX, push_name};
use super::file_set::FileSet;
use super::plan::{Kind, stable_how};
use crate::client::Identity;
use crate::driver::calls::Calls;

/// The procedure of a kind of call; OPEN and CLOSE are of NFSv4 alone.
pub(super) fn procedure(kind: Kind) -> Option<Procedure> {
    Some(match kind {
        Kind::Null => Procedure::NULL,
        Kind::Getattr => Procedure::GETATTR,
        Kind::Lookup => Procedure::LOOKUP,
        Kind::Access => Procedure::ACCESS,
        Kind::Read => Procedure::READ,
        Kind::Write => Procedure::WRITE,
        Kind::Create => Procedure::CREATE,
        Kind::Remove => Procedure::REMOVE,
        Kind::Rename => Procedure::RENAME,
        Kind::Readdirplus => Procedure::READDIRPLUS,
        Kind::Commit => Procedure::COMMIT,
        Kind::Open | Kind::Close => return None,
    })
}

/// Encoded beginnings of calls: record mark, header, credentials, handle. Of one client, since its name is in
/// them.
#[derive(Debug)]
pub(super) struct Templates {
    calls: [Vec<Vec<u8>>; Kind::ALL.len()],
    /// The encoded handles of the directories where names are made: RENAME has two.
    scratch: Vec<Vec<u8>>,
    create_tail: Vec<u8>,
}

fn begin(identity: &Identity, procedure: Procedure, handle: &impl Encode) -> Vec<u8> {
    let mark = [0; RecordMark::SIZE];
    [mark.to_vec(), identity.header(PROGRAM, VERSION, procedure.0), handle.to_bytes()].concat()
}

impl Templates {
    pub(super) fn new(file_set: &FileSet, identity: &Identity) -> Self {
        let calls = Kind::ALL.map(|kind| {
            let Some(procedure) = procedure(kind) else { return Vec::new() };
            match file_set.handles(kind) {
                None => vec![begin(identity, procedure, &())],
                Some(all) => all.iter().map(|handle| begin(identity, procedure, &handle.wire())).collect(),
            }
        });
        let scratch = file_set.scratch.iter().map(|handle| handle.wire().to_bytes()).collect();
        let create_tail = CreateHow::Unchecked(Sattr { mode: Some(0o644), ..Sattr::default() }).to_bytes();
        Self { calls, scratch, create_tail }
    }

    /// Puts a call into the outbox.
    #[inline]
    pub(super) fn push(&self, call: &Call<'_>, out: &mut Calls) {
        let start = out.begin(&self.calls[call.kind as usize][call.object]);
        self.push_arguments(call, out);
        out.finish(start, call.slot, call.payload(), &[]);
    }

    /// Appends the arguments behind the handle.
    #[inline]
    fn push_arguments(&self, call: &Call<'_>, out: &mut Calls) {
        match call.kind {
            Kind::Null | Kind::Getattr | Kind::Open | Kind::Close => {}
            Kind::Access => out.push(&Access::NAMED.iter().fold(0, |all, (_, bit)| all | bit).to_be_bytes()),
            Kind::Read => {
                out.push(&call.position.offset.to_be_bytes());
                out.push(&call.transfer.to_be_bytes());
            }
            Kind::Write => {
                out.push(&call.position.offset.to_be_bytes());
                out.push(&call.transfer.to_be_bytes());
                out.push(&(stable_how(call.stability) as u32).to_be_bytes());
                out.push(&call.transfer.to_be_bytes());
            }
            Kind::Commit => out.push(&[0; 12]),
            Kind::Lookup => push_name(out, &call.entry()),
            Kind::Create => {
                push_name(out, &call.name(0));
                out.push(&self.create_tail);
            }
            Kind::Remove => push_name(out, &call.name(0)),
            Kind::Rename => {
                push_name(out, &call.name(0));
                out.push(&self.scratch[call.other]);
                push_name(out, &call.name(1));
            }
            Kind::Readdirplus => {
                out.push(&call.cookie.to_be_bytes());
                out.push(call.cookieverf);
                out.push(&LISTING_MAX.to_be_bytes());
                out.push(&LISTING_MAX.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_after_their_procedures() {
        for (kind, procedure) in Kind::ALL.into_iter().filter_map(|kind| Some((kind, procedure(kind)?))) {
            assert_eq!(format!("{procedure:?}"), format!("NFSPROC3_{kind}"));
        }
    }
}

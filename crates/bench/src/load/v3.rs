//! The calls of a load over NFSv3: a common start for each kind, and the changing rest.

use nfs_wire::v3::{Access, CreateHow, Sattr};
use wire_client::nfs3::call::Headers;
use wire_client::{Handle, Identity};
use xdr::Encode;

use super::call::{Call, LISTING_MAX, push_name};
use super::file_set::FileSet;
use super::plan::{Kind, stable_how};
use crate::driver::calls::Calls;

/// Encoded starts of one client's calls: record mark, header, credentials, handle.
#[derive(Debug)]
pub(super) struct Templates {
    calls: [Vec<Vec<u8>>; Kind::ALL.len()],
    /// Encoded handles of the directories of new names: RENAME needs two.
    scratch: Vec<Vec<u8>>,
    create_tail: Vec<u8>,
}

impl Templates {
    pub(super) fn new(file_set: &FileSet, identity: &Identity) -> Self {
        let headers = Headers::new(identity);
        let calls = Kind::ALL.map(|kind| match file_set.handles(kind) {
            None => vec![headers.of(kind.into()).to_vec()],
            Some(all) => {
                let begin = |handle: &Handle| [headers.of(kind.into()), &handle.wire().to_bytes()].concat();
                all.iter().map(begin).collect()
            }
        });
        let scratch = file_set.scratch.iter().map(|handle| handle.wire().to_bytes()).collect();
        let create_tail = CreateHow::Unchecked(Sattr { mode: Some(0o644), ..Sattr::default() }).to_bytes();
        Self { calls, scratch, create_tail }
    }

    #[inline]
    pub(super) fn push(&self, call: &Call<'_>, out: &mut Calls) {
        let start = out.begin(&self.calls[call.kind as usize][call.object]);
        self.push_arguments(call, out);
        out.finish(start, call.slot, call.payload(), &[]);
    }

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
    use wire_client::nfs3::call::procedure;

    use super::*;

    #[test]
    fn kinds_are_named_after_their_procedures() {
        for kind in Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Open | Kind::Close)) {
            assert_eq!(format!("{:?}", procedure(kind.into())), format!("NFSPROC3_{kind}"));
        }
    }
}

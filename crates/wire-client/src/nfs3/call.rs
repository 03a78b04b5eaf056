//! Calls and replies of NFSv3.

use nfs_wire::v3::{
    AccessFail, AccessOk, CommitFail, CommitOk, CreateFail, CreateOk, GetattrOk, LookupFail, LookupOk,
    PROGRAM, PostOpAttr, Procedure, ReadFail, ReadOk, ReaddirFail, ReaddirplusOk, RemoveFail, RemoveOk,
    RenameFail, RenameOk, Reply, SetattrFail, SetattrOk, Status, VERSION, WriteFail, WriteOk,
};
use xdr::{Decode, Encode, Reader, Writer};

use crate::call::{Call, CallKind, CallResult, ListedPage, ReadHead, Rejection, WriteHead, ended};
use crate::error::Error;
use crate::rpc::Identity;

/// Procedures 0 (NULL) to 21 (COMMIT).
const PROCEDURES: usize = 22;

/// The start of a call for each procedure: record mark, header and credentials.
#[derive(Debug)]
pub struct Headers(Vec<Vec<u8>>);

impl Headers {
    pub fn new(identity: &Identity) -> Self {
        let header = |procedure| identity.record_header(PROGRAM, VERSION, procedure);
        Self((0..).take(PROCEDURES).map(header).collect())
    }

    #[inline]
    pub fn of(&self, kind: CallKind) -> &[u8] {
        &self.0[procedure(kind).0 as usize]
    }
}

/// Returns NULL for OPEN and CLOSE, which NFSv3 does not have.
#[inline]
pub fn procedure(kind: CallKind) -> Procedure {
    match kind {
        CallKind::Getattr => Procedure::GETATTR,
        CallKind::Setattr => Procedure::SETATTR,
        CallKind::Lookup => Procedure::LOOKUP,
        CallKind::Access => Procedure::ACCESS,
        CallKind::Read => Procedure::READ,
        CallKind::Write => Procedure::WRITE,
        CallKind::Create => Procedure::CREATE,
        CallKind::Mkdir => Procedure::MKDIR,
        CallKind::Remove => Procedure::REMOVE,
        CallKind::Rmdir => Procedure::RMDIR,
        CallKind::Rename => Procedure::RENAME,
        CallKind::Readdirplus => Procedure::READDIRPLUS,
        CallKind::Commit => Procedure::COMMIT,
        CallKind::Null | CallKind::Open | CallKind::Close => Procedure::NULL,
    }
}

impl Encode for Call<'_> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Getattr(arguments) => arguments.encode(w),
            Self::Setattr(arguments) => arguments.encode(w),
            Self::Lookup(arguments) => arguments.encode(w),
            Self::Access(arguments) => arguments.encode(w),
            Self::Read(arguments) => arguments.encode(w),
            Self::Write(arguments) => arguments.encode(w),
            Self::Create(arguments) => arguments.encode(w),
            Self::Mkdir(arguments) => arguments.encode(w),
            Self::Remove(arguments) | Self::Rmdir(arguments) => arguments.encode(w),
            Self::Commit(arguments) => arguments.encode(w),
            Self::Open(_) | Self::Close(_) => {}
        }
    }
}

impl Encode for WriteHead<'_> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        self.file.encode(w);
        w.u64(self.offset);
        w.u32(self.count);
        self.stable.encode(w);
        w.u32(self.count);
    }
}

#[inline]
pub fn decode<'a>(kind: CallKind, mut results: Reader<'a>) -> Result<CallResult<'a>, Rejection> {
    let r = &mut results;
    let result = match kind {
        CallKind::Null | CallKind::Open | CallKind::Close => CallResult::Done,
        CallKind::Getattr => succeeded::<GetattrOk, ()>(r).map(|_| CallResult::Done)?,
        CallKind::Setattr => succeeded::<SetattrOk, SetattrFail>(r).map(|_| CallResult::Done)?,
        CallKind::Lookup => CallResult::Found(Some(succeeded::<LookupOk<'_>, LookupFail>(r)?.object)),
        CallKind::Access => succeeded::<AccessOk, AccessFail>(r).map(|_| CallResult::Done)?,
        CallKind::Read => {
            let ok = succeeded::<ReadOk<'_>, ReadFail>(r)?;
            CallResult::Read { count: ok.count, data: ok.data, eof: ok.eof }
        }
        CallKind::Write => {
            let ok = succeeded::<WriteOk, WriteFail>(r)?;
            CallResult::Written { count: ok.count, committed: ok.committed, verf: ok.verf }
        }
        CallKind::Create => CallResult::Found(succeeded::<CreateOk<'_>, CreateFail>(r)?.obj),
        CallKind::Mkdir => succeeded::<CreateOk<'_>, CreateFail>(r).map(|_| CallResult::Done)?,
        CallKind::Remove | CallKind::Rmdir => {
            succeeded::<RemoveOk, RemoveFail>(r).map(|_| CallResult::Done)?
        }
        CallKind::Rename => succeeded::<RenameOk, RenameFail>(r).map(|_| CallResult::Done)?,
        CallKind::Readdirplus => {
            CallResult::Listed(listed(&succeeded::<ReaddirplusOk<'_>, ReaddirFail>(r)?)?)
        }
        CallKind::Commit => CallResult::Committed(succeeded::<CommitOk, CommitFail>(r)?.verf),
    };
    ended(r)?;
    Ok(result)
}

/// Decodes `READ3res` (RFC 1813 §3.3.6) up to its data, which a receiver may have dropped.
#[inline]
pub fn decode_read_head(r: &mut Reader<'_>) -> Result<ReadHead, Rejection> {
    let status = Status::decode(r)?;
    if status != Status::OK {
        return Err(Rejection::refused(status));
    }
    PostOpAttr::decode(r)?;
    Ok(ReadHead { count: r.u32()?, eof: r.bool()?, length: r.u32()? })
}

fn listed(ok: &ReaddirplusOk<'_>) -> Result<ListedPage, Error> {
    let (mut entries, mut cookie) = (0, None);
    for entry in ok.entries.iter() {
        cookie = Some(entry.cookie);
        entries += u64::from(entry.name != b"." && entry.name != b"..");
    }
    if cookie.is_none() && !ok.eof {
        return Err(Error::Protocol("READDIRPLUS without entries and not at the end".to_owned()));
    }
    Ok(ListedPage { entries, cookie: cookie.unwrap_or(0), cookieverf: ok.cookieverf, eof: ok.eof })
}

#[inline]
fn succeeded<'a, O: Decode<'a>, F: Decode<'a>>(r: &mut Reader<'a>) -> Result<O, Rejection> {
    match Reply::<O, F>::decode(r)? {
        Reply::Ok(ok) => Ok(ok),
        Reply::Err(status, _) => Err(Rejection::refused(status)),
    }
}

#[cfg(test)]
mod tests {
    use nfs_wire::v3::{FileHandle, StableHow, WriteArgs};

    use super::*;

    #[test]
    fn write_head_and_data_encode_as_write_args() {
        let (file, data) = (FileHandle(&[1, 2, 3, 4, 5]), [7; 8]);
        let whole = WriteArgs { file, offset: 4096, count: 8, stable: StableHow::DataSync, data: &data };
        let head = Call::Write(WriteHead { file, offset: 4096, count: 8, stable: StableHow::DataSync });
        assert_eq!([head.to_bytes(), data.to_vec()].concat(), whole.to_bytes());
    }
}

//! Calls and replies of NFSv3.

use nfs_wire::rpc::RecordMark;
use nfs_wire::v3::{
    AccessFail, AccessOk, CommitFail, CommitOk, CreateFail, CreateOk, GetattrOk, LookupFail, LookupOk,
    PROGRAM, Procedure, ReadFail, ReadOk, RemoveFail, RemoveOk, Reply, SetattrFail, SetattrOk, VERSION,
    WriteFail, WriteOk,
};
use xdr::{Decode, Encode, Reader, Writer};

use super::call::{Answer, Call, WriteHead};
use crate::client::Identity;
use crate::driver::calls::Calls;
use crate::driver::counters::PROCEDURES;
use crate::driver::fault::{Fault, counted, ended};

/// Beginnings of calls by procedure: record mark, header, credentials.
#[derive(Debug)]
pub(super) struct Headers(Vec<Vec<u8>>);

impl Headers {
    /// Of calls by `identity`.
    pub(super) fn new(identity: &Identity) -> Self {
        let header = |procedure| {
            [[0; RecordMark::SIZE].to_vec(), identity.header(PROGRAM, VERSION, procedure)].concat()
        };
        Self((0..).take(PROCEDURES).map(header).collect())
    }

    /// Puts a call into the outbox, with so many bytes of a payload.
    pub(super) fn push(
        &self,
        call: &Call<'_>,
        slot: usize,
        payload: Option<(usize, u32)>,
        calls: &mut Calls,
    ) {
        let procedure = usize::try_from(procedure(call).0).unwrap_or(0);
        let start = calls.begin(&self.0[procedure]);
        calls.encode(call);
        calls.finish(start, slot, payload, &[]);
    }
}

/// The procedure of a call; NULL of those that are of NFSv4 alone, which nobody makes here.
pub(super) fn procedure(call: &Call<'_>) -> Procedure {
    match call {
        Call::Getattr(_) => Procedure::GETATTR,
        Call::Setattr(_) => Procedure::SETATTR,
        Call::Lookup(_) => Procedure::LOOKUP,
        Call::Access(_) => Procedure::ACCESS,
        Call::Read(_) => Procedure::READ,
        Call::Write(_) => Procedure::WRITE,
        Call::Create(_) => Procedure::CREATE,
        Call::Mkdir(_) => Procedure::MKDIR,
        Call::Remove(_) => Procedure::REMOVE,
        Call::Rmdir(_) => Procedure::RMDIR,
        Call::Commit(_) => Procedure::COMMIT,
        Call::Open(_) | Call::Close(_) => Procedure::NULL,
    }
}

/// The arguments.
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

/// What the reply to a call brought.
pub(super) fn judge<'a>(call: &Call<'_>, mut results: Reader<'a>) -> Result<Answer<'a>, Fault> {
    let r = &mut results;
    let answer = match call {
        Call::Getattr(_) => succeeded::<GetattrOk, ()>(r).map(|_| Answer::Done)?,
        Call::Setattr(_) => succeeded::<SetattrOk, SetattrFail>(r).map(|_| Answer::Done)?,
        Call::Lookup(_) => Answer::Found(Some(succeeded::<LookupOk<'_>, LookupFail>(r)?.object)),
        Call::Access(_) => succeeded::<AccessOk, AccessFail>(r).map(|_| Answer::Done)?,
        Call::Read(_) => {
            let ok = succeeded::<ReadOk<'_>, ReadFail>(r)?;
            Answer::Read { count: ok.count, data: ok.data, eof: ok.eof }
        }
        Call::Write(_) => {
            let ok = succeeded::<WriteOk, WriteFail>(r)?;
            Answer::Written { count: ok.count, committed: ok.committed, verf: ok.verf }
        }
        Call::Create(_) => Answer::Found(succeeded::<CreateOk<'_>, CreateFail>(r)?.obj),
        Call::Mkdir(_) => succeeded::<CreateOk<'_>, CreateFail>(r).map(|_| Answer::Done)?,
        Call::Remove(_) | Call::Rmdir(_) => succeeded::<RemoveOk, RemoveFail>(r).map(|_| Answer::Done)?,
        Call::Commit(_) => Answer::Committed(succeeded::<CommitOk, CommitFail>(r)?.verf),
        Call::Open(_) | Call::Close(_) => Answer::Done,
    };
    ended(r)?;
    Ok(answer)
}

fn succeeded<'a, O: Decode<'a>, F: Decode<'a>>(r: &mut Reader<'a>) -> Result<O, Fault> {
    match Reply::<O, F>::decode(r)? {
        Reply::Ok(ok) => Ok(ok),
        Reply::Err(status, _) => Err(counted(format!("{status:?}"), "refused".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use nfs_wire::v3::{FileHandle, StableHow, WriteArgs};

    use super::*;

    #[test]
    fn a_write_is_its_head_and_its_data() {
        let (file, data) = (FileHandle(&[1, 2, 3, 4, 5]), [7; 8]);
        let whole = WriteArgs { file, offset: 4096, count: 8, stable: StableHow::DataSync, data: &data };
        let head = Call::Write(WriteHead { file, offset: 4096, count: 8, stable: StableHow::DataSync });
        assert_eq!([head.to_bytes(), data.to_vec()].concat(), whole.to_bytes());
    }
}

//! Files that lose their last name while they are open.

use super::*;
use crate::testing::v4::{Client, at, put};
use crate::testing::{TestEnv, export, rule};
use nfs_wire::v4::{
    Argument, Fattr, GetattrArgs, OpReply, ReadArgs, ReclaimCompleteArgs, RemoveArgs, Reply, StableHow,
    WriteArgs,
};

fn open<'a>(owner: &'a [u8], openhow: OpenFlag<'a>) -> Argument<'a> {
    Argument::Open(OpenArgs {
        seqid: 0,
        share_access: ShareAccess(3),
        share_deny: ShareDeny::NONE,
        owner: StateOwner { clientid: 0, owner },
        openhow,
        claim: OpenClaim::Null(b"f"),
    })
}

/// Opens `/e/f`: its stateid and its handle.
fn opened(client: &Client, owner: &[u8], openhow: OpenFlag<'_>) -> (Stateid, Vec<u8>) {
    let results = client.ask(&at(&[b"e"], [open(owner, openhow), Argument::Getfh]));
    match &*results.all() {
        [.., OpReply::Open(Reply::Ok(open)), OpReply::Getfh(Reply::Ok(handle))] => {
            (open.stateid, handle.object.0.to_vec())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_without_a_name_is_there_until_its_last_open_ends() {
    let client = Client::new(TestEnv::new([export("/e", 1, vec![rule(&[])])], vec![]), 1);
    let complete = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
    assert_eq!(client.status(&[complete]), Status::OK);
    let attrs = Fattr { attrmask: Bitmap::EMPTY, attr_vals: &[] };
    let (first, handle) = opened(&client, b"one", OpenFlag::Create(CreateHow::Unchecked(attrs)));
    let (second, _) = opened(&client, b"two", OpenFlag::NoCreate);
    let remove = Argument::Remove(RemoveArgs { target: b"f" });
    assert_eq!(client.status(&at(&[b"e"], [remove])), Status::OK);

    let on = |operation: Argument<'_>| client.status(&[put(&handle), operation]);
    let write = |stateid| {
        Argument::Write(WriteArgs {
            stateid,
            offset: 0,
            stable: StableHow::FileSync,
            data: b"without a name",
        })
    };
    let look =
        || Argument::Getattr(GetattrArgs { attr_request: Bitmap::of(&[nfs_wire::v4::attr::NUMLINKS]) });
    let close = |open_stateid| Argument::Close(CloseArgs { seqid: 0, open_stateid });
    assert_eq!(on(write(first)), Status::OK);
    assert_eq!(on(close(first)), Status::OK);
    let results = client.ask(&[
        put(&handle),
        look(),
        Argument::Read(ReadArgs { stateid: second, offset: 0, count: 99 }),
    ]);
    let all = results.all();
    let [_, OpReply::Getattr(Reply::Ok(seen)), OpReply::Read(Reply::Ok(read))] = &*all else {
        panic!("{all:?}")
    };
    assert_eq!((seen.obj_attributes.attr_vals, read.data), (&[0; 4][..], &b"without a name"[..]));
    // Only by its open: no name leads to the file.
    assert_eq!(client.status(&at(&[b"e"], [open(b"three", OpenFlag::NoCreate)])), Status::NOENT);
    assert_eq!(on(close(second)), Status::OK);
    assert_eq!(on(look()), Status::STALE);
}

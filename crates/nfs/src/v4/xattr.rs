//! Extended attributes: GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR (RFC 8276 §8.4). Names are bare, as the
//! model has them.

use super::compound_state::{CompoundState, OpError, OpResult};
use super::dir::change_info;
use super::filehandle::Filehandle;
use nfs_wire::v4::{
    GetxattrArgs, ListxattrsArgs, RemovexattrArgs, SetxattrArgs, SetxattrOption, Status, XattrValue,
};
use std::ops::ControlFlow;
use vfs::qos::Transferred;
use vfs::{FsError, SetXattr};
use xdr::{Encode, Writer};

/// RFC 8276 §8.4.1.
pub(super) fn getxattr(
    cx: &mut CompoundState<'_, '_>,
    args: GetxattrArgs<'_>,
    w: &mut Writer<'_>,
) -> OpResult {
    cx.may_wait()?;
    let Filehandle::File(file) = cx.current_filehandle()? else {
        return Err(OpError::Status(Status::NOXATTR));
    };
    let value = file.get_xattr(&file.caller, args.name).map_err(refusal)?;
    cx.count_metadata(Transferred::read(value.len()));
    XattrValue(&value).encode(w);
    Ok(())
}

/// RFC 8276 §8.4.2.
pub(super) fn setxattr(
    cx: &mut CompoundState<'_, '_>,
    args: SetxattrArgs<'_>,
    w: &mut Writer<'_>,
) -> OpResult {
    cx.may_wait()?;
    let file = cx.file()?;
    let how = match args.option {
        SetxattrOption::Either => SetXattr::Either,
        SetxattrOption::Create => SetXattr::Create,
        SetxattrOption::Replace => SetXattr::Replace,
    };
    let change = file.set_xattr(&file.caller, args.key, args.value.0, how, cx.call.pending);
    let change = change.map_err(refusal)?;
    cx.count_metadata(Transferred::written(args.value.0.len()));
    change_info(&change).encode(w);
    Ok(())
}

/// RFC 8276 §8.4.4.
pub(super) fn removexattr(
    cx: &mut CompoundState<'_, '_>,
    args: RemovexattrArgs<'_>,
    w: &mut Writer<'_>,
) -> OpResult {
    cx.may_wait()?;
    let file = cx.file()?;
    let change = file.remove_xattr(&file.caller, args.name, cx.call.pending).map_err(refusal)?;
    change_info(&change).encode(w);
    Ok(())
}

/// RFC 8276 §8.4.3. The directories above the exports have none.
pub(super) fn listxattrs(
    cx: &mut CompoundState<'_, '_>,
    args: ListxattrsArgs,
    w: &mut Writer<'_>,
) -> OpResult {
    cx.may_wait()?;
    let start = w.len();
    let mut page = Page { limit: start + args.maxcount as usize, cookie: args.cookie, names: 0, w };
    page.w.u64(args.cookie);
    page.w.u32(0);
    let at_end = match cx.current_filehandle()? {
        Filehandle::Pseudo(_) => true,
        Filehandle::File(file) => file
            .list_xattrs(&file.caller, args.cookie, &mut |name, cookie| page.add(name.bytes(), cookie))
            .map_err(refusal)?,
    };
    let Page { limit, cookie, names, w } = page;
    let nothing_fits = names == 0 && !at_end;
    if nothing_fits || w.len() + EOF_BYTES > limit {
        return Err(FsError::TooSmall.into());
    }
    let [high, low] =
        [cookie >> 32, cookie & u64::from(u32::MAX)].map(|half| u32::try_from(half).unwrap_or(0));
    // The next cookie and the count are known only after the names.
    w.patch_u32(start, high);
    w.patch_u32(start + 4, low);
    w.patch_u32(start + 8, names);
    w.bool(at_end);
    cx.count_metadata(Transferred::read(w.len() - start));
    Ok(())
}

/// Bytes of the flag after the names.
const EOF_BYTES: usize = 4;

/// A listing in progress.
struct Page<'p, 'w> {
    /// Offset at which the results must end.
    limit: usize,
    /// Position after the last name.
    cookie: u64,
    names: u32,
    w: &'p mut Writer<'w>,
}

impl Page<'_, '_> {
    fn add(&mut self, name: &[u8], cookie: u64) -> ControlFlow<()> {
        let before = self.w.len();
        self.w.opaque(name);
        if self.w.len() + EOF_BYTES > self.limit {
            self.w.truncate(before);
            return ControlFlow::Break(());
        }
        (self.cookie, self.names) = (cookie, self.names + 1);
        ControlFlow::Continue(())
    }
}

/// The error of these operations (RFC 8276 §8.4): a missing attribute is not a missing file.
fn refusal(error: FsError) -> OpError {
    match error {
        FsError::NotFound => OpError::Status(Status::NOXATTR),
        FsError::FileTooBig => OpError::Status(Status::XATTR2BIG),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::v4::{Client, at};
    use crate::testing::{TestEnv, export, rule};
    use nfs_wire::v4::{Argument, ListxattrsOk, OpReply, Reply};
    use vfs::XATTR_VALUE_BYTES_MAX;

    const E: &[&[u8]] = &[b"e"];

    fn client() -> Client {
        Client::new(TestEnv::new([export("/e", 1, vec![rule(&[])])], vec![]), 2)
    }

    fn set(client: &Client, path: &[&[u8]], key: &[u8], value: &[u8], option: SetxattrOption) -> Status {
        let args = SetxattrArgs { option, key, value: XattrValue(value) };
        client.status(&at(path, [Argument::Setxattr(args)]))
    }

    fn get(client: &Client, path: &[&[u8]], name: &[u8]) -> Result<Vec<u8>, Status> {
        match client.ask(&at(path, [Argument::Getxattr(GetxattrArgs { name })])).all().last() {
            Some(OpReply::Getxattr(Reply::Ok(value))) => Ok(value.0.to_vec()),
            Some(OpReply::Getxattr(Reply::Err(status))) => Err(*status),
            other => panic!("{other:?}"),
        }
    }

    fn remove(client: &Client, path: &[&[u8]], name: &[u8]) -> Status {
        client.status(&at(path, [Argument::Removexattr(RemovexattrArgs { name })]))
    }

    /// Names after a cookie, the next cookie, and whether the list is complete.
    fn list(
        client: &Client,
        path: &[&[u8]],
        cookie: u64,
        maxcount: u32,
    ) -> Result<(Vec<Vec<u8>>, u64, bool), Status> {
        match client.ask(&at(path, [Argument::Listxattrs(ListxattrsArgs { cookie, maxcount })])).all().last()
        {
            Some(OpReply::Listxattrs(Reply::Ok(ListxattrsOk { cookie, names, eof }))) => {
                Ok((names.iter().map(|name| name.0.to_vec()).collect(), *cookie, *eof))
            }
            Some(OpReply::Listxattrs(Reply::Err(status))) => Err(*status),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn attributes_are_set_read_and_removed() {
        let client = client();
        assert_eq!(get(&client, E, b"a"), Err(Status::NOXATTR));
        assert_eq!(set(&client, E, b"a", b"1", SetxattrOption::Replace), Status::NOXATTR);
        assert_eq!(set(&client, E, b"a", b"1", SetxattrOption::Create), Status::OK);
        assert_eq!(set(&client, E, b"a", b"2", SetxattrOption::Create), Status::EXIST);
        assert_eq!(get(&client, E, b"a"), Ok(b"1".to_vec()));
        assert_eq!(set(&client, E, b"a", b"", SetxattrOption::Either), Status::OK);
        assert_eq!(get(&client, E, b"a"), Ok(vec![]));
        let large = vec![0; XATTR_VALUE_BYTES_MAX + 1];
        assert_eq!(set(&client, E, b"a", &large, SetxattrOption::Either), Status::XATTR2BIG);
        let results = client.ask(&at(E, [Argument::Removexattr(RemovexattrArgs { name: b"a" })]));
        let all = results.all();
        let Some(OpReply::Removexattr(Reply::Ok(info))) = all.last() else { panic!("{all:?}") };
        assert!(info.atomic && info.before < info.after);
        assert_eq!(remove(&client, E, b"a"), Status::NOXATTR);
    }

    #[test]
    fn a_list_has_each_name_once() {
        let client = client();
        assert_eq!(list(&client, E, 0, 16), Ok((vec![], 0, true)), "16 bytes are the least");
        assert_eq!(list(&client, E, 0, 15), Err(Status::TOOSMALL));
        let mut names: Vec<Vec<u8>> = (0..20).map(|number| format!("name{number}").into_bytes()).collect();
        for name in &names {
            assert_eq!(set(&client, E, name, b"v", SetxattrOption::Create), Status::OK);
        }
        assert_eq!(list(&client, E, 0, 20), Err(Status::TOOSMALL));
        let (mut found, mut cookie, mut calls) = (Vec::new(), 0, 0);
        loop {
            let (some, next, eof) = list(&client, E, cookie, 60).unwrap();
            found.extend(some);
            (cookie, calls) = (next, calls + 1);
            if eof {
                break;
            }
        }
        assert!(calls > 5, "{calls} calls of three names each");
        names.sort();
        found.sort();
        assert_eq!(found, names);
    }

    #[test]
    fn the_directories_above_the_exports_have_none() {
        let client = client();
        assert_eq!(get(&client, &[], b"a"), Err(Status::NOXATTR));
        assert_eq!(list(&client, &[], 0, 16), Ok((vec![], 0, true)));
        assert_eq!(set(&client, &[], b"a", b"1", SetxattrOption::Either), Status::ROFS);
        assert_eq!(remove(&client, &[], b"a"), Status::ROFS);
    }
}

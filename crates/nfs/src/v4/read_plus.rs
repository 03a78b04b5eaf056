//! READ_PLUS: data, and holes by their lengths (RFC 7862 §15.10).

use super::file::read_counted;
use super::ops::{Done, Ops};
use crate::limits::{READ_PLUS_CONTENTS_MAX, TRANSFER_BYTES_MAX};
use crate::records::reply::Records;
use nfs_wire::v4::{DataContent, DataInfo, ReadPlusArgs, ReadPlusContent, ReadPlusOkHead};
use transport::Outbox;
use vfs::qos::Transferred;
use vfs::{Access, OpenFile, Seek};
use xdr::Encode;

/// Reads what READ would, without the bytes of holes. A file whose storage is as long as it has none, as far as anybody needs
/// to know: it is answered as by READ.
pub(super) fn read_plus(ops: &mut Ops<'_, '_>, args: &ReadPlusArgs, out: &mut Outbox) -> Done {
    let file = ops.file()?;
    let kept = ops.opened(&file, &args.stateid, Access::READ)?;
    let authorized;
    let opened = match &kept {
        Some(opened) => &**opened,
        None => {
            authorized = file.authorize_read(&file.caller, ops.call.blocking)?.0;
            &authorized
        }
    };
    let count = u64::from(args.count.min(TRANSFER_BYTES_MAX));
    // Also of what lies behind the end: somebody may have written there without saying so.
    opened.check_read(args.offset, count)?;
    let attrs = ops.call.attrs(&file)?;
    let may_have_holes = attrs.used < attrs.size;
    if may_have_holes {
        // Looking for them may ask the storage.
        ops.may_wait()?;
    }
    let pages = ops.is_last;
    let head = out.bytes().len();
    ReadPlusOkHead { eof: false, contents_length: 0 }.encode(&mut out.writer());
    let end = args.offset.saturating_add(count).min(attrs.size);
    let (mut at, mut contents, mut read, mut is_cut) = (args.offset, 0, 0, false);
    while at < end && contents < READ_PLUS_CONTENTS_MAX && !is_cut {
        contents += 1;
        let data = if may_have_holes { data_at(opened, at, end) } else { at };
        if data > at {
            let hole = DataInfo { offset: at, length: data - at };
            ReadPlusContent::Hole(hole).encode(&mut out.writer());
            at = data;
            continue;
        }
        let hole = if may_have_holes { hole_after(opened, at, end) } else { end };
        let want = usize::try_from(hole - at).unwrap_or(usize::MAX);
        let mut w = out.writer();
        DataContent::Data.encode(&mut w);
        at.encode(&mut w);
        let (bytes, is_short) = read_counted(ops.call, opened, at, want, pages, out)?;
        (at, read) = (at + bytes as u64, read + bytes);
        is_cut = is_short || bytes == 0;
    }
    let mut w = out.writer();
    w.patch_u32(head, u32::from(is_cut || at >= attrs.size));
    w.patch_u32(head + 4, contents);
    ops.count_data(Transferred::read(read));
    Ok(())
}

/// Where the next data begin, before `end`. What cannot be told apart is data.
fn data_at(opened: &OpenFile<'_>, at: u64, end: u64) -> u64 {
    opened.seek(at, Seek::Data).map_or(at, |found| found.unwrap_or(end)).clamp(at, end)
}

/// Where data end that begin at `at`, before `end`.
fn hole_after(opened: &OpenFile<'_>, at: u64, end: u64) -> u64 {
    let found = opened.seek(at, Seek::Hole).ok().flatten().filter(|&found| found > at);
    found.map_or(end, |found| found.min(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::v4::{Client, put};
    use crate::testing::{Desk, export, rule};
    use nfs_wire::v4::{Argument, Data, OpReply, ReadPlusOk, Reply, Stateid, Status};
    use vfs::{Blocking, Caller, Disposition, PendingSync, SetAttrs, Stability};

    const PAGE: u64 = 4096;

    /// `/e` with `f`, which has pages of data at these offsets, each of its own number.
    fn client(minor: u32, data: &[u64]) -> Client {
        let desk = Desk::new([export("/e", 1, vec![rule(&[])])], vec![]);
        let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
        let root = desk.service.namespace.load().exports()[0].root();
        let set = SetAttrs { mode: Some(0o600), ..SetAttrs::default() };
        let made = root.create(&caller, b"f", Disposition::CreateNew, &set, &mut pending).unwrap();
        let opened = made.file.authorize_write(&caller).unwrap();
        for &offset in data {
            let number = u8::try_from(1 + offset / PAGE).unwrap();
            opened.write(offset, &[number; 4096], Stability::Unstable, &mut pending).unwrap();
        }
        Client::new(desk, minor)
    }

    fn ask(offset: u64, count: u32) -> Argument<'static> {
        Argument::ReadPlus(ReadPlusArgs { stateid: Stateid::ANONYMOUS, offset, count })
    }

    /// What is read, and whether that is the end; the contents as where they begin, how long they are, and what the first byte
    /// of data is.
    fn read(client: &Client, offset: u64, count: u32) -> (bool, Vec<(u64, u64, Option<u8>)>) {
        let results = client.ask(&[put(&client.handle(&[b"e", b"f"])), ask(offset, count)]);
        let all = results.all();
        let Some(OpReply::ReadPlus(Reply::Ok(ReadPlusOk { eof, contents }))) = all.last() else {
            panic!("{all:?}")
        };
        let shown = |content: &ReadPlusContent<'_>| match content {
            ReadPlusContent::Hole(DataInfo { offset, length }) => (*offset, *length, None),
            ReadPlusContent::Data(Data { offset, data }) => {
                assert!(data.iter().all(|byte| *byte == data[0]) || data.len() as u64 > PAGE);
                (*offset, data.len() as u64, Some(data[0]))
            }
        };
        (*eof, contents.iter().map(shown).collect())
    }

    #[test]
    fn data_and_holes_come_in_turn_and_within_what_was_asked() {
        let client = client(2, &[0, 2 * PAGE]);
        let all = vec![(0, PAGE, Some(1)), (PAGE, PAGE, None), (2 * PAGE, PAGE, Some(3))];
        assert_eq!(read(&client, 0, 1 << 20), (true, all));
        let middle = vec![(4000, 96, Some(1)), (PAGE, PAGE, None), (2 * PAGE, 1, Some(3))];
        assert_eq!(read(&client, 4000, 96 + 4096 + 1), (false, middle));
        assert_eq!(read(&client, PAGE + 7, 10), (false, vec![(PAGE + 7, 10, None)]));
        assert_eq!(read(&client, 3 * PAGE - 1, 10), (true, vec![(3 * PAGE - 1, 1, Some(3))]));
    }

    #[test]
    fn nothing_is_read_past_the_end_and_of_nothing() {
        let client = client(2, &[0]);
        for offset in [PAGE, PAGE + 1, u64::MAX] {
            assert_eq!(read(&client, offset, 10), (true, vec![]), "{offset}");
        }
        assert_eq!(read(&client, 0, 0), (false, vec![]));
    }

    #[test]
    fn a_file_of_many_holes_comes_in_several_replies() {
        let data: Vec<u64> = (0..40).map(|page| 2 * page * PAGE).collect();
        let client = client(2, &data);
        let (mut at, mut contents, mut replies) = (0, Vec::new(), 0);
        loop {
            let (eof, more) = read(&client, at, 1 << 20);
            assert!(more.len() <= READ_PLUS_CONTENTS_MAX as usize && !more.is_empty());
            contents.extend(more);
            replies += 1;
            at = contents.last().map_or(0, |(offset, length, _)| offset + length);
            if eof {
                break;
            }
        }
        assert_eq!((replies, at), (5, 79 * PAGE));
        let page =
            |page: u64| (page * PAGE, PAGE, page.is_multiple_of(2).then(|| u8::try_from(page + 1).unwrap()));
        assert_eq!(contents, (0..79).map(page).collect::<Vec<_>>());
    }

    #[test]
    fn only_files_with_holes_have_to_wait() {
        for (data, waits) in [(&[0, PAGE][..], false), (&[0, 2 * PAGE], true)] {
            let mut client = client(2, data);
            let handle = client.handle(&[b"e", b"f"]);
            client.blocking = Blocking::Never;
            let results = client.ask(&[put(&handle), ask(0, 10)]);
            assert_eq!((results.status(), results.waited), (Status::OK, waits));
        }
    }

    #[test]
    fn mode_bits_and_minor_versions_are_asked() {
        let mut client = client(2, &[0, 2 * PAGE]);
        let handle = client.handle(&[b"e", b"f"]);
        client.desk.user = (7, 7);
        assert_eq!(client.status(&[put(&handle), ask(PAGE, 1)]), Status::ACCESS, "of a hole, too");
        let older = self::client(1, &[0]);
        assert_eq!(older.status(&[put(&handle), ask(0, 1)]), Status::OP_ILLEGAL);
    }
}

//! The client over SMB 3.1.1. Handles are paths from the root of the share, with `\` between names.

use std::thread;
use std::time::{Duration, Instant};

use nfs_wire::v3::{StableHow, WriteVerf};
use smb_wire::classes::file::DispositionInformation;
use smb_wire::classes::file_system::FullSizeInformation;
use smb_wire::classes::{FileClass, FileSystemClass};
use smb_wire::create::CreateResponse;
use smb_wire::dir::{DirectoryClass, OutputResponse};
use smb_wire::file::{ReadResponse, WriteFlags, WriteResponse};
use smb_wire::header::Command;
use smb_wire::info::InfoType;
use smb_wire::types::FileAttributes;
use smb_wire::{Decode, Encode, FileId, Malformed, NtStatus, Reader, Utf16, chain};

use super::requests::{self, OpenMode};
use super::session::Session;
use crate::error::Error;
use crate::object::{
    Attributes, Chunk, DirEntry, Handle, PAGE_BYTES, Space, TransferLimits, WriteResult, utf16,
};
use crate::rpc::Identity;
use crate::target::Target;

/// Bounds the wait until other clients close files removed from a directory.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
const CLOSE_POLL: Duration = Duration::from_millis(10);

/// A connected share, and the directory in it that is the client's root.
#[derive(Debug)]
pub(crate) struct Smb {
    session: Session,
    root: Handle,
    /// The last file that was read or written. It stays open for the next call.
    open_file: Option<(Handle, FileId)>,
}

impl Smb {
    pub(crate) fn mount(target: &Target, identity: &Identity) -> Result<Self, Error> {
        let session = Session::open(target, 0, identity)?;
        let (_, directory) = target.share();
        Ok(Self { session, root: Handle(directory.into_bytes()), open_file: None })
    }

    pub(crate) fn root(&self) -> Handle {
        self.root.clone()
    }

    /// From the response to CREATE.
    pub(crate) fn attributes(&mut self, object: &Handle) -> Result<Attributes, Error> {
        let (file, attributes) = self.open(object, OpenMode::ATTRIBUTES)?;
        self.close(file)?;
        Ok(attributes)
    }

    pub(crate) fn lookup(&mut self, dir: &Handle, name: &str) -> Result<Handle, Error> {
        self.open_and_close(&join(dir, name), OpenMode::ATTRIBUTES)
    }

    pub(crate) fn read(&mut self, file: &Handle, offset: u64, count: u32) -> Result<Chunk<'_>, Error> {
        let file_id = self.file_id(file)?;
        let reply = self.session.call(Command::READ, count, &requests::read(file_id, offset, count), None)?;
        // SMB answers a READ at the end of a file with an error status.
        if reply.header.status == NtStatus::END_OF_FILE {
            return Ok(Chunk { data: &[], eof: true });
        }
        let data =
            reply.succeeded(|| format!("READ of {}", shown(file)))?.body::<ReadResponse<&[u8]>>()?.data;
        if data.len() > count as usize {
            return Err(Error::Protocol(format!("READ of {count} sends {} bytes", data.len())));
        }
        Ok(Chunk { data, eof: data.len() < count as usize })
    }

    pub(crate) fn write(
        &mut self,
        file: &Handle,
        offset: u64,
        data: &[u8],
        stable: StableHow,
    ) -> Result<WriteResult, Error> {
        let file_id = self.file_id(file)?;
        let flags = match stable {
            StableHow::Unstable => WriteFlags::empty(),
            StableHow::DataSync | StableHow::FileSync => WriteFlags::WRITE_THROUGH,
        };
        let body = requests::write(file_id, offset, data.len(), flags);
        let moved = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let reply = self.session.call(Command::WRITE, moved, &body, Some(data))?;
        let count = reply.succeeded(|| format!("WRITE of {}", shown(file)))?.body::<WriteResponse>()?.count;
        if count == 0 || count > moved {
            return Err(Error::Protocol(format!("WRITE of {moved} bytes: {count}")));
        }
        Ok(WriteResult { count, committed: stable, verf: WriteVerf::default() })
    }

    /// FLUSH. SMB has no write verifier.
    pub(crate) fn commit(&mut self, file: &Handle) -> Result<WriteVerf, Error> {
        let file_id = self.file_id(file)?;
        self.call(Command::FLUSH, &requests::flush(file_id), &shown(file))?;
        Ok(WriteVerf::default())
    }

    pub(crate) fn create(&mut self, dir: &Handle, name: &str, _mode: u32) -> Result<Handle, Error> {
        self.open_and_close(&join(dir, name), OpenMode::OPEN_OR_CREATE)
    }

    pub(crate) fn mkdir(&mut self, dir: &Handle, name: &str, _mode: u32) -> Result<Handle, Error> {
        self.open_and_close(&join(dir, name), OpenMode::NEW_DIRECTORY)
    }

    pub(crate) fn remove(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        // The client's own open would keep the name of the removed file.
        self.close_open_file()?;
        self.open_and_close(&join(dir, name), OpenMode::DELETE_ON_CLOSE).map(drop)
    }

    /// Removes an empty directory. A removed file keeps its name until every client closes it, so this call
    /// waits.
    pub(crate) fn remove_dir(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        let (object, until) = (join(dir, name), Instant::now() + CLOSE_TIMEOUT);
        loop {
            let (file_id, _) = self.open(&object, OpenMode::DELETE_ACCESS)?;
            let buffer = &DispositionInformation { delete_pending: true }.to_bytes()[..];
            let body = requests::set_info(FileClass::DISPOSITION, buffer, file_id);
            let status = self.session.call(Command::SET_INFO, 0, &body, None)?.header.status;
            self.close(file_id)?;
            match status {
                NtStatus::SUCCESS => return Ok(()),
                NtStatus::DIRECTORY_NOT_EMPTY if Instant::now() < until => thread::sleep(CLOSE_POLL),
                status => {
                    let doing = format!("SET_INFO of {}", shown(&object));
                    return Err(Error::Refused { doing, status: format!("{status:?}") });
                }
            }
        }
    }

    pub(crate) fn list(&mut self, dir: &Handle) -> Result<Vec<DirEntry>, Error> {
        let (file_id, _) = self.open(dir, OpenMode::LISTING)?;
        let (mut entries, all) = (Vec::new(), utf16("*"));
        loop {
            let is_first = entries.is_empty();
            let page = requests::list(DirectoryClass::DIRECTORY, file_id, is_first, Utf16::new(&all)?);
            let reply = self.session.call(Command::QUERY_DIRECTORY, PAGE_BYTES, &page, None)?;
            if reply.header.status == NtStatus::NO_MORE_FILES {
                break;
            }
            let page = reply.succeeded(|| format!("QUERY_DIRECTORY of {}", shown(dir)))?;
            for entry in chain::entries(8, page.body::<OutputResponse<&[u8]>>()?.output) {
                entries.push(parse_entry(dir, entry?)?);
            }
        }
        self.close(file_id)?;
        entries.retain(|entry| entry.name != b"." && entry.name != b"..");
        Ok(entries)
    }

    pub(crate) fn limits(&mut self) -> Result<TransferLimits, Error> {
        Ok(self.session.limits())
    }

    pub(crate) fn space(&mut self) -> Result<Space, Error> {
        let root = self.root();
        let (file_id, _) = self.open(&root, OpenMode::ATTRIBUTES)?;
        let body = requests::query_info(InfoType::FILESYSTEM, FileSystemClass::FULL_SIZE.0, file_id);
        let output = self.call(Command::QUERY_INFO, &body, "the file system")?;
        let full = FullSizeInformation::from_bytes(&output)?;
        self.close(file_id)?;
        let unit = u64::from(full.sectors_per_allocation_unit) * u64::from(full.bytes_per_sector);
        let [total, free, available] = [
            full.total_allocation_units,
            full.actual_available_allocation_units,
            full.caller_available_allocation_units,
        ]
        .map(|units| units.saturating_mul(unit));
        Ok(Space { total, free, available })
    }

    /// Returns the output buffer of QUERY_INFO; empty for other commands.
    fn call(&mut self, command: Command, body: &dyn Encode, object: &str) -> Result<Vec<u8>, Error> {
        let reply = self.session.call(command, PAGE_BYTES, body, None)?;
        let reply = reply.succeeded(|| format!("{command:?} of {object}"))?;
        match command {
            Command::QUERY_INFO => Ok(reply.body::<OutputResponse<&[u8]>>()?.output.to_vec()),
            _ => Ok(Vec::new()),
        }
    }

    fn open(&mut self, object: &Handle, mode: OpenMode) -> Result<(FileId, Attributes), Error> {
        let path = object.path()?;
        let reply = self.session.call(Command::CREATE, 0, &mode.request(Utf16::new(&path)?), None)?;
        let reply = reply.succeeded(|| format!("CREATE of {}", shown(object)))?;
        let ok: CreateResponse<'_> = reply.body()?;
        let is_directory = ok.file_attributes.contains(FileAttributes::DIRECTORY);
        Ok((ok.file_id, Attributes { is_directory, size: ok.end_of_file, used: ok.allocation_size }))
    }

    fn close(&mut self, file_id: FileId) -> Result<(), Error> {
        self.call(Command::CLOSE, &requests::close(file_id), "an open file").map(drop)
    }

    fn open_and_close(&mut self, object: &Handle, mode: OpenMode) -> Result<Handle, Error> {
        let (file_id, _) = self.open(object, mode)?;
        self.close(file_id)?;
        Ok(object.clone())
    }

    /// Opens the file unless it was used last.
    fn file_id(&mut self, file: &Handle) -> Result<FileId, Error> {
        match &self.open_file {
            Some((open, file_id)) if open == file => return Ok(*file_id),
            _ => self.close_open_file()?,
        }
        let (file_id, _) = self.open(file, OpenMode::DATA)?;
        self.open_file = Some((file.clone(), file_id));
        Ok(file_id)
    }

    fn close_open_file(&mut self) -> Result<(), Error> {
        self.open_file.take().map_or(Ok(()), |(_, file_id)| self.close(file_id))
    }
}

/// The path from the root of the share, for people.
fn shown(object: &Handle) -> String {
    match object.0.as_slice() {
        b"" => "the root of the share".to_owned(),
        path => format!("{:?}", String::from_utf8_lossy(path).replace('\\', "/")),
    }
}

fn join(dir: &Handle, name: &str) -> Handle {
    let between: &[u8] = if dir.0.is_empty() { b"" } else { b"\\" };
    Handle([&dir.0, between, name.as_bytes()].concat())
}

/// An entry of `FileDirectoryInformation`, MS-FSCC §2.4.10.
fn parse_entry(dir: &Handle, entry: &[u8]) -> Result<DirEntry, Malformed> {
    let mut r = Reader::new(entry);
    // NextEntryOffset, FileIndex, and four times.
    r.skip(4 + 4 + 4 * 8)?;
    let (size, used) = (u64::decode(&mut r)?, u64::decode(&mut r)?);
    let is_directory = FileAttributes::decode(&mut r)?.contains(FileAttributes::DIRECTORY);
    let length = u32::decode(&mut r)?;
    let name = Utf16::new(r.bytes(length as usize)?)?.to_wtf8();
    let handle = str::from_utf8(&name).ok().map(|name| join(dir, name));
    Ok(DirEntry { name, attributes: Some(Attributes { is_directory, size, used }), handle })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_shown_by_their_names() {
        let root = Handle(Vec::new());
        assert_eq!(shown(&root), "the root of the share");
        assert_eq!(shown(&join(&join(&root, "plimsoll-bench"), "é")), "\"plimsoll-bench/é\"");
    }
}

//! The client over SMB 3.1.1. Its handles are paths from the root of the share, as SMB divides names.

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

use super::connection::Identity;
use super::object::{Attributes, Chunk, Handle, Limits, Listed, Written};
use crate::error::Error;
use crate::smb::Session;
use crate::smb::requests::{self, Opening, PAGE_BYTES, utf16};
use crate::target::Target;

/// How long those who have ended may take to close what they had open, and how often that is looked at.
const CLOSING_MAX: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(10);

/// A share, and the directory in it that is worked in.
#[derive(Debug)]
pub(super) struct Smb {
    session: Session,
    root: Handle,
    /// The file that was read or written last, which is open.
    opened: Option<(Handle, FileId)>,
}

impl Smb {
    /// Logs in and connects to the share.
    pub(super) fn mount(target: &Target, identity: &Identity) -> Result<Self, Error> {
        let session = Session::open(target, 0, identity)?;
        let (_, directory) = target.share();
        Ok(Self { session, root: Handle(directory.into_bytes()), opened: None })
    }

    /// The directory that is worked in.
    pub(super) fn root(&self) -> Handle {
        self.root.clone()
    }

    /// What CREATE says of a file.
    pub(super) fn attributes(&mut self, object: &Handle) -> Result<Attributes, Error> {
        let (file, attributes) = self.open(object, Opening::ATTRIBUTES)?;
        self.close(file)?;
        Ok(attributes)
    }

    /// CREATE of a name that is there, and CLOSE.
    pub(super) fn lookup(&mut self, dir: &Handle, name: &str) -> Result<Handle, Error> {
        self.open_and_close(&below(dir, name), Opening::ATTRIBUTES)
    }

    /// READ; the data lives until the next call.
    pub(super) fn read(&mut self, file: &Handle, offset: u64, count: u32) -> Result<Chunk<'_>, Error> {
        let file_id = self.file_id(file)?;
        let reply = self.session.call(Command::READ, count, &requests::read(file_id, offset, count), None)?;
        if reply.header.status == NtStatus::END_OF_FILE {
            return Ok(Chunk { data: &[], eof: true });
        }
        let data = reply.succeeded(|| format!("READ of {file:?}"))?.body::<ReadResponse<&[u8]>>()?.data;
        if data.len() > count as usize {
            return Err(Error::Protocol(format!("READ of {count} sends {} bytes", data.len())));
        }
        Ok(Chunk { data, eof: data.len() < count as usize })
    }

    /// WRITE.
    pub(super) fn write(
        &mut self,
        file: &Handle,
        offset: u64,
        data: &[u8],
        stable: StableHow,
    ) -> Result<Written, Error> {
        let file_id = self.file_id(file)?;
        let flags = match stable {
            StableHow::Unstable => WriteFlags::empty(),
            StableHow::DataSync | StableHow::FileSync => WriteFlags::WRITE_THROUGH,
        };
        let body = requests::write(file_id, offset, data.len(), flags);
        let moved = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let reply = self.session.call(Command::WRITE, moved, &body, Some(data))?;
        let count = reply.succeeded(|| format!("WRITE of {file:?}"))?.body::<WriteResponse>()?.count;
        if count == 0 || count > moved {
            return Err(Error::Protocol(format!("WRITE of {moved} bytes: {count}")));
        }
        Ok(Written { count, committed: stable, verf: WriteVerf::default() })
    }

    /// FLUSH of the whole file. SMB has no verifier.
    pub(super) fn commit(&mut self, file: &Handle) -> Result<WriteVerf, Error> {
        let file_id = self.file_id(file)?;
        self.call(Command::FLUSH, &requests::flush(file_id), &format!("{file:?}"))?;
        Ok(WriteVerf::default())
    }

    /// CREATE of a file that may exist, and CLOSE. Its mode is the server's choice.
    pub(super) fn create(&mut self, dir: &Handle, name: &str, _mode: u32) -> Result<Handle, Error> {
        self.open_and_close(&below(dir, name), Opening::FILE)
    }

    /// CREATE of a directory, and CLOSE.
    pub(super) fn make_new_dir(&mut self, dir: &Handle, name: &str, _mode: u32) -> Result<Handle, Error> {
        self.open_and_close(&below(dir, name), Opening::NEW_DIRECTORY)
    }

    /// Removes a file.
    pub(super) fn remove(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        self.let_go()?;
        self.open_and_close(&below(dir, name), Opening::REMOVAL).map(drop)
    }

    /// Removes an empty directory. What was removed in it, and others still have open, is there until they close it: that is
    /// waited for.
    pub(super) fn remove_dir(&mut self, dir: &Handle, name: &str) -> Result<(), Error> {
        let (object, until) = (below(dir, name), Instant::now() + CLOSING_MAX);
        loop {
            let (file_id, _) = self.open(&object, Opening::RENAMING)?;
            let buffer = &DispositionInformation { delete_pending: true }.to_bytes()[..];
            let body = requests::set_info(FileClass::DISPOSITION, buffer, file_id);
            let status = self.session.call(Command::SET_INFO, 0, &body, None)?.header.status;
            self.close(file_id)?;
            match status {
                NtStatus::SUCCESS => return Ok(()),
                NtStatus::DIRECTORY_NOT_EMPTY if Instant::now() < until => thread::sleep(AGAIN),
                status => {
                    let doing = format!("SET_INFO of {object:?}");
                    return Err(Error::Refused { doing, status: format!("{status:?}") });
                }
            }
        }
    }

    /// QUERY_DIRECTORY to the end.
    pub(super) fn list(&mut self, dir: &Handle) -> Result<Vec<Listed>, Error> {
        let (file_id, _) = self.open(dir, Opening::LISTING)?;
        let (mut listed, all) = (Vec::new(), utf16("*"));
        loop {
            let is_first = listed.is_empty();
            let page = requests::list(DirectoryClass::DIRECTORY, file_id, is_first, Utf16::new(&all)?);
            let reply = self.session.call(Command::QUERY_DIRECTORY, PAGE_BYTES, &page, None)?;
            if reply.header.status == NtStatus::NO_MORE_FILES {
                break;
            }
            let page = reply.succeeded(|| format!("QUERY_DIRECTORY of {dir:?}"))?;
            for entry in chain::entries(8, page.body::<OutputResponse<&[u8]>>()?.output) {
                listed.push(listed_in(dir, entry?)?);
            }
        }
        self.close(file_id)?;
        listed.retain(|listed| listed.name != b"." && listed.name != b"..");
        Ok(listed)
    }

    /// What NEGOTIATE said.
    pub(super) fn limits(&mut self) -> Result<Limits, Error> {
        Ok(self.session.limits())
    }

    /// QUERY_INFO of the file system.
    pub(super) fn free_bytes(&mut self) -> Result<u64, Error> {
        let root = self.root();
        let (file_id, _) = self.open(&root, Opening::ATTRIBUTES)?;
        let body = requests::query_info(InfoType::FILESYSTEM, FileSystemClass::FULL_SIZE.0, file_id);
        let output = self.call(Command::QUERY_INFO, &body, "the file system")?;
        let full = FullSizeInformation::from_bytes(&output)?;
        self.close(file_id)?;
        let unit = u64::from(full.sectors_per_allocation_unit) * u64::from(full.bytes_per_sector);
        Ok(full.caller_available_allocation_units.saturating_mul(unit))
    }

    /// A request whose reply has one buffer at most; gives that.
    fn call(&mut self, command: Command, body: &dyn Encode, object: &str) -> Result<Vec<u8>, Error> {
        let reply = self.session.call(command, PAGE_BYTES, body, None)?;
        let reply = reply.succeeded(|| format!("{command:?} of {object}"))?;
        match command {
            Command::QUERY_INFO => Ok(reply.body::<OutputResponse<&[u8]>>()?.output.to_vec()),
            _ => Ok(Vec::new()),
        }
    }

    /// CREATE.
    fn open(&mut self, object: &Handle, opening: Opening) -> Result<(FileId, Attributes), Error> {
        let path = object.path()?;
        let reply = self.session.call(Command::CREATE, 0, &opening.request(Utf16::new(&path)?), None)?;
        let reply = reply.succeeded(|| format!("CREATE of {object:?}"))?;
        let ok: CreateResponse<'_> = reply.body()?;
        let is_directory = ok.file_attributes.contains(FileAttributes::DIRECTORY);
        Ok((ok.file_id, Attributes { is_directory, size: ok.end_of_file, used: ok.allocation_size }))
    }

    fn close(&mut self, file_id: FileId) -> Result<(), Error> {
        self.call(Command::CLOSE, &requests::close(file_id), "what was opened").map(drop)
    }

    fn open_and_close(&mut self, object: &Handle, opening: Opening) -> Result<Handle, Error> {
        let (file_id, _) = self.open(object, opening)?;
        self.close(file_id)?;
        Ok(object.clone())
    }

    /// The file, open.
    fn file_id(&mut self, file: &Handle) -> Result<FileId, Error> {
        match &self.opened {
            Some((opened, file_id)) if opened == file => return Ok(*file_id),
            _ => self.let_go()?,
        }
        let (file_id, _) = self.open(file, Opening::DATA)?;
        self.opened = Some((file.clone(), file_id));
        Ok(file_id)
    }

    /// Closes the file that is open.
    fn let_go(&mut self) -> Result<(), Error> {
        self.opened.take().map_or(Ok(()), |(_, file_id)| self.close(file_id))
    }
}

/// The path of a name in a directory.
fn below(dir: &Handle, name: &str) -> Handle {
    let between: &[u8] = if dir.0.is_empty() { b"" } else { b"\\" };
    Handle([&dir.0, between, name.as_bytes()].concat())
}

/// An entry of `FileDirectoryInformation`, MS-FSCC §2.4.10.
fn listed_in(dir: &Handle, entry: &[u8]) -> Result<Listed, Malformed> {
    let mut r = Reader::new(entry);
    // The offset of the next entry, an index, four times.
    r.skip(4 + 4 + 4 * 8)?;
    let (size, used) = (u64::decode(&mut r)?, u64::decode(&mut r)?);
    let is_directory = FileAttributes::decode(&mut r)?.contains(FileAttributes::DIRECTORY);
    let length = u32::decode(&mut r)?;
    let name = Utf16::new(r.bytes(length as usize)?)?.to_wtf8();
    let handle = str::from_utf8(&name).ok().map(|name| below(dir, name));
    Ok(Listed { name, attributes: Some(Attributes { is_directory, size, used }), handle })
}

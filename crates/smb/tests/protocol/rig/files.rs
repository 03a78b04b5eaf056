//! File operations in one line.

use super::client::{Client, Reply, utf16};
use smb_wire::classes::FileClass;
use smb_wire::create::{
    CreateAction, CreateContexts, CreateDisposition, CreateOptions, CreateRequest, CreateResponse,
    ImpersonationLevel, OplockLevel, ShareAccess,
};
use smb_wire::dir::OutputResponse;
use smb_wire::file::{
    Channel, CloseFlags, CloseRequest, ReadFlags, ReadRequest, ReadResponse, WriteFlags, WriteRequest,
    WriteResponse,
};
use smb_wire::header::Command;
use smb_wire::info::{InfoType, QueryInfoFlags, QueryInfoRequest, SecurityInformation, SetInfoRequest};
use smb_wire::ioctl::{CtlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{Encode, FileId, NtStatus, Utf16};

/// Full sharing.
const SHARED: ShareAccess = ShareAccess(ShareAccess::READ.0 | ShareAccess::WRITE.0 | ShareAccess::DELETE.0);

/// The parameters of an open. Default: read, write and delete access, full sharing, created if missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) access: AccessMask,
    pub(crate) share: ShareAccess,
    pub(crate) disposition: CreateDisposition,
    pub(crate) options: CreateOptions,
    pub(crate) attributes: FileAttributes,
}

impl Default for Opening {
    fn default() -> Self {
        Self {
            access: AccessMask::GENERIC_READ | AccessMask::GENERIC_WRITE | AccessMask::DELETE,
            share: SHARED,
            disposition: CreateDisposition::OPEN_IF,
            options: CreateOptions::empty(),
            attributes: FileAttributes::NORMAL,
        }
    }
}

impl Opening {
    /// An exclusive open.
    pub(crate) fn alone() -> Self {
        Self { share: ShareAccess::empty(), ..Self::default() }
    }

    pub(crate) fn dir() -> Self {
        Self { options: CreateOptions::DIRECTORY_FILE, ..Self::default() }
    }

    /// The default with this disposition.
    pub(crate) fn by(disposition: CreateDisposition) -> Self {
        Self { disposition, ..Self::default() }
    }

    /// The CREATE for a UTF-16 name.
    pub(crate) fn request<'a>(&self, wire: &'a [u8]) -> CreateRequest<'a> {
        CreateRequest {
            requested_oplock_level: OplockLevel::NONE,
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: self.access,
            file_attributes: self.attributes,
            share_access: self.share,
            create_disposition: self.disposition,
            create_options: self.options,
            name: Utf16::new(wire).unwrap(),
            contexts: CreateContexts::default(),
        }
    }
}

/// Encodes a name in UTF-16.
pub(crate) fn name(text: &str) -> Vec<u8> {
    utf16(text)
}

impl Client {
    /// Sends CREATE and returns the reply.
    #[track_caller]
    pub(crate) fn create(&mut self, path: &str, opening: Opening) -> Reply {
        self.call(Command::CREATE, &opening.request(&name(path)))
    }

    /// Opens a file; must succeed.
    #[track_caller]
    pub(crate) fn open(&mut self, path: &str, opening: Opening) -> FileId {
        self.create(path, opening).body::<CreateResponse<'_>>().file_id
    }

    /// The create action, or the error.
    #[track_caller]
    pub(crate) fn action(&mut self, path: &str, opening: Opening) -> Result<CreateAction, NtStatus> {
        let reply = self.create(path, opening);
        if reply.status().is_error() {
            return Err(reply.status());
        }
        let created: CreateResponse<'_> = reply.body();
        let file = created.file_id;
        assert_eq!(self.close(file).status(), NtStatus::SUCCESS);
        Ok(created.create_action)
    }

    #[track_caller]
    pub(crate) fn close(&mut self, file_id: FileId) -> Reply {
        self.call(Command::CLOSE, &CloseRequest { flags: CloseFlags::empty(), file_id })
    }

    #[track_caller]
    pub(crate) fn write(&mut self, file_id: FileId, offset: u64, data: &[u8]) -> Reply {
        let charge = u16::try_from(data.len().div_ceil(1 << 16).max(1)).unwrap();
        self.call_charged(Command::WRITE, &write(file_id, offset, data), charge)
    }

    /// Writes a file with this content and closes it.
    #[track_caller]
    pub(crate) fn put(&mut self, path: &str, data: &[u8]) {
        let file = self.open(path, Opening::by(CreateDisposition::OVERWRITE_IF));
        let reply = self.write(file, 0, data);
        assert_eq!(reply.body::<WriteResponse>().count, u32::try_from(data.len()).unwrap());
        assert_eq!(self.close(file).status(), NtStatus::SUCCESS);
    }

    #[track_caller]
    pub(crate) fn read(&mut self, file_id: FileId, offset: u64, length: u32) -> Reply {
        let charge = u16::try_from(length.div_ceil(1 << 16).max(1)).unwrap();
        self.call_charged(Command::READ, &read(file_id, offset, length), charge)
    }

    /// Reads; must succeed.
    #[track_caller]
    pub(crate) fn data(&mut self, file_id: FileId, offset: u64, length: u32) -> Vec<u8> {
        self.read(file_id, offset, length).body::<ReadResponse<&[u8]>>().data.to_vec()
    }

    /// The content of a file by its path.
    #[track_caller]
    pub(crate) fn get(&mut self, path: &str) -> Vec<u8> {
        let file = self.open(path, Opening::by(CreateDisposition::OPEN));
        let data = self.data(file, 0, 1 << 16);
        self.close(file);
        data
    }

    #[track_caller]
    pub(crate) fn query(&mut self, file_id: FileId, class: FileClass, room: u32) -> Reply {
        self.call(Command::QUERY_INFO, &query(InfoType::FILE, file_id, class.0, room))
    }

    /// QUERY_INFO of a file; must succeed. Returns the output.
    #[track_caller]
    pub(crate) fn info(&mut self, file_id: FileId, class: FileClass) -> Vec<u8> {
        self.query(file_id, class, 4096).body::<OutputResponse<&[u8]>>().output.to_vec()
    }

    #[track_caller]
    pub(crate) fn ioctl(&mut self, file_id: FileId, ctl_code: CtlCode, input: &[u8], room: u32) -> Reply {
        let request = ioctl(file_id, ctl_code, input, room);
        self.call(Command::IOCTL, &request)
    }

    pub(crate) fn set(&mut self, file_id: FileId, class: FileClass, value: &impl Encode) -> NtStatus {
        let buffer = &value.to_bytes()[..];
        let request = SetInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: class.0,
            buffer,
            additional_information: SecurityInformation::empty(),
            file_id,
        };
        self.call(Command::SET_INFO, &request).status()
    }
}

pub(crate) fn read(file_id: FileId, offset: u64, length: u32) -> ReadRequest<'static> {
    ReadRequest {
        padding: 0x50,
        flags: ReadFlags::empty(),
        length,
        offset,
        file_id,
        minimum_count: 0,
        channel: Channel::NONE,
        remaining_bytes: 0,
        read_channel_info: &[],
    }
}

pub(crate) fn write(file_id: FileId, offset: u64, data: &[u8]) -> WriteRequest<&[u8]> {
    let (channel, flags) = (Channel::NONE, WriteFlags::empty());
    WriteRequest { data, offset, file_id, channel, remaining_bytes: 0, flags }
}

pub(crate) fn ioctl(file_id: FileId, ctl_code: CtlCode, input: &[u8], room: u32) -> IoctlRequest<'_> {
    IoctlRequest {
        ctl_code,
        file_id,
        input,
        max_input_response: 0,
        output: &[],
        max_output_response: room,
        flags: IoctlFlags::IS_FSCTL,
    }
}

/// The output of an IOCTL reply, regardless of its status.
#[track_caller]
pub(crate) fn output(reply: &Reply) -> &[u8] {
    reply.read::<IoctlResponse<'_>>().output
}

pub(crate) fn query(
    info_type: InfoType,
    file_id: FileId,
    file_info_class: u8,
    output_buffer_length: u32,
) -> QueryInfoRequest<'static> {
    QueryInfoRequest {
        info_type,
        file_info_class,
        output_buffer_length,
        input: &[],
        additional_information: SecurityInformation::empty(),
        flags: QueryInfoFlags::empty(),
        file_id,
    }
}

//! Sources of attribute values: an object, and its file system.

use super::locations::Locations;
use super::owner::Naming;
use super::{table, times};
use crate::call::Call;
use crate::handle::Handle;
use crate::state::nfs4::ServiceState;
use crate::v4::compound_state::{CompoundState, OpError, OpResult};
use crate::v4::filehandle::Filehandle;
use crate::v4::pseudo;
use nfs_wire::v4::{Bitmap, Fsid, Status, attr};
use std::net::IpAddr;
use std::sync::Arc;
use vfs::{
    Attrs, Blocking, Capabilities, Export, FileType, FsError, FsLimits, FsResult, FsStat, PosixAcl,
    QuotaRoom, Volume, Wait,
};
use xdr::Writer;

/// A file system: a volume, or the directories above the exports.
pub(in crate::v4) struct FileSystem<'s> {
    pub(in crate::v4) minor: u32,
    state: &'s ServiceState,
    export: Option<&'s Export>,
    blocking: Blocking,
    /// The address at which the client has reached us.
    local: IpAddr,
}

pub(in crate::v4) struct AttrSource<'s> {
    pub(in crate::v4) fs: &'s FileSystem<'s>,
    /// The filehandle; optional if the request does not ask for it.
    pub(in crate::v4) handle: Option<&'s Handle>,
    pub(in crate::v4) attrs: &'s Attrs,
    /// The file id of the covered directory, or the object's own.
    pub(in crate::v4) mounted_on: u64,
    /// Looks up the POSIX ACL.
    pub(in crate::v4) acl: &'s dyn Fn() -> FsResult<Option<Arc<PosixAcl>>>,
}

/// Reads attributes of the current object.
#[inline]
pub(super) fn of_current<R>(
    cx: &mut CompoundState<'_, '_>,
    attributes: &Bitmap,
    read: impl FnOnce(&AttrSource<'_>) -> Result<R, OpError>,
) -> Result<R, OpError> {
    let written = cx.query_writer(attributes)?;
    let (call, minor) = (&mut *cx.call, cx.request.minor);
    let filehandle = cx.current.as_ref().ok_or(OpError::Status(Status::NOFILEHANDLE))?;
    let mut attrs = match (filehandle, cx.written) {
        // The WRITE just returned them.
        (Filehandle::File(_), Some(attrs)) => attrs,
        (Filehandle::File(file), None) => call.attrs(file)?,
        (Filehandle::Pseudo(filehandle), _) => filehandle.attrs(call)?,
    };
    if let Some(size) = written {
        attrs.size = size;
    }
    of_filehandle(call, minor, filehandle, attributes, &attrs, read)
}

/// Reads attributes of an object that has `attrs`.
#[inline]
fn of_filehandle<R>(
    call: &Call<'_>,
    minor: u32,
    filehandle: &Filehandle,
    request: &Bitmap,
    attrs: &Attrs,
    read: impl FnOnce(&AttrSource<'_>) -> Result<R, OpError>,
) -> Result<R, OpError> {
    match filehandle {
        Filehandle::File(file) => {
            let system = FileSystem::new(call, minor, Some(file.export()));
            let with_born;
            let attrs = match request.contains(attr::TIME_CREATE) && file.volume().has_extra_attrs(attrs) {
                false => attrs,
                true => {
                    let born = file.extra_attrs(attrs, call.blocking)?.born_or_modified(attrs);
                    with_born = Attrs { born: Some(born), ..*attrs };
                    &with_born
                }
            };
            let is_root = attrs.file_type == FileType::Directory && file.is_root();
            let covered = match is_root {
                true => pseudo::mounted_on(&call.service.signer, file.export()),
                false => file.entry_id(attrs),
            };
            let mounted_on = covered.unwrap_or(attrs.file_id);
            let acl = || file.posix_acl(attrs, call.blocking);
            read(&AttrSource { fs: &system, handle: Some(file.handle()), attrs, mounted_on, acl: &acl })
        }
        Filehandle::Pseudo(filehandle) => {
            let system = FileSystem::new(call, minor, None);
            let handle = filehandle.handle(&call.service.signer);
            let (mounted_on, acl) = (attrs.file_id, || Ok(None));
            read(&AttrSource { fs: &system, handle: Some(&handle), attrs, mounted_on, acl: &acl })
        }
    }
}

/// Writes the attributes of a filehandle as a `fattr4`.
pub(in crate::v4) fn encode_filehandle(
    cx: &CompoundState<'_, '_>,
    filehandle: &Filehandle,
    request: &Bitmap,
    w: &mut Writer<'_>,
) -> OpResult {
    let attrs = match filehandle {
        Filehandle::File(file) => file.attrs(cx.call.blocking),
        Filehandle::Pseudo(filehandle) => filehandle.attrs(cx.call),
    }?;
    of_filehandle(cx.call, cx.request.minor, filehandle, request, &attrs, |source| {
        table::encode(request, source, w)
    })
}

impl<'s> FileSystem<'s> {
    /// The volume of an export; the directories above the exports if there is none.
    #[inline]
    pub(in crate::v4) fn new(call: &Call<'s>, minor: u32, export: Option<&'s Export>) -> Self {
        Self { minor, state: &call.service.v4, export, blocking: call.blocking, local: call.local }
    }

    /// Seconds for which a client keeps its state without contact.
    pub(super) fn lease_s(&self) -> u32 {
        self.state.lease_s
    }

    /// Whether clients may keep times of files that are delegated to them for writing.
    pub(super) fn delegates_times(&self) -> bool {
        self.state.delegates_times(self.minor)
    }

    #[inline]
    pub(super) fn naming(&self) -> Naming<'s> {
        Naming::of(self.state, self.blocking)
    }

    fn volume(&self) -> Option<&'s Volume> {
        self.export.map(|export| &*export.volume)
    }

    fn file_has_birth_time(&self, attrs: &Attrs) -> bool {
        self.volume().is_some_and(|volume| volume.has_extra_attrs(attrs))
    }

    pub(super) fn locations(&self) -> Locations<'s> {
        let (path, endpoints) =
            self.export.map_or(("/", &[][..]), |export| (&export.path, &export.endpoints));
        Locations { path, local: self.local, endpoints, port: self.state.port }
    }

    pub(super) fn is_pseudo(&self) -> bool {
        self.export.is_none()
    }

    fn has_quotas(&self) -> bool {
        self.volume().is_some_and(|volume| volume.ruling_quotas().is_some())
    }

    pub(super) fn limits(&self) -> FsLimits {
        let none =
            FsLimits { links_max: 1, name_bytes_max: 255, file_bytes_max: i64::MAX as u64, time_step_ns: 1 };
        self.volume().map_or(none, |volume| *volume.limits())
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        self.volume().map_or_else(Capabilities::default, Volume::capabilities)
    }

    /// Capacity and free space. Blocks on storage.
    pub(super) fn stat(&self) -> FsResult<FsStat> {
        match self.volume() {
            None => Ok(FsStat::default()),
            Some(_) if self.blocking == Blocking::Never => Err(FsError::Wait(Wait::Storage)),
            Some(volume) => volume.stat(),
        }
    }
}

impl AttrSource<'_> {
    /// The file system: a volume, or one of its snapshots.
    #[inline]
    pub(super) fn fsid(&self) -> Fsid {
        let major = self.fs.volume().map_or(0, |volume| volume.id().0);
        Fsid { major, minor: self.attrs.view.snapshot().0.into() }
    }

    /// The attributes that it has, those among them that can only be set.
    pub(in crate::v4) fn supported(&self) -> Bitmap {
        let available = self.available(&table::supported(self.fs.minor));
        if self.fs.delegates_times() { available | times::DELEGATED_TIMES } else { available }
    }

    /// The requested attributes that the object has.
    #[inline]
    pub(super) fn available(&self, request: &Bitmap) -> Bitmap {
        let mut available = *request & table::supported(self.fs.minor);
        // The attribute is readable where it can be set.
        if available.contains(attr::TIME_CREATE) && !self.fs.file_has_birth_time(self.attrs) {
            available.remove(attr::TIME_CREATE);
        }
        if available.contains(attr::CLONE_BLKSIZE) && self.clone_bytes().is_none() {
            available.remove(attr::CLONE_BLKSIZE);
        }
        if !(available & table::QUOTA).is_empty() && !self.fs.has_quotas() {
            available = available.without(&table::QUOTA);
        }
        available
    }

    /// The space left to the owners of this object (RFC 8881 §5.8.2.29 to §5.8.2.31); no limit in a volume without
    /// rules.
    pub(super) fn quota_room(&self) -> QuotaRoom {
        let (volume, Attrs { uid, gid, .. }) = (self.fs.volume(), self.attrs);
        volume.and_then(|volume| volume.quota_room(*uid, *gid)).unwrap_or_default()
    }

    /// Alignment of cloned ranges; `None` without cloning.
    pub(super) fn clone_bytes(&self) -> Option<u32> {
        let bytes = self.fs.capabilities().ranges?.clone_bytes?;
        u32::try_from(bytes).ok()
    }
}

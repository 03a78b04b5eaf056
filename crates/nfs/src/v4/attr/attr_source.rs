//! What attributes are read from: an object, and the file system that it lies in.

use super::locations::Locations;
use super::owner::Naming;
use super::{table, times};
use crate::call::Call;
use crate::handle::Handle;
use crate::state::nfs4::State;
use crate::v4::filehandle::Place;
use crate::v4::ops::{Done, Ops, Stop};
use crate::v4::pseudo;
use nfs_wire::v4::{Bitmap, Fsid, Status, attr};
use std::net::IpAddr;
use std::sync::Arc;
use vfs::{
    Attrs, Blocking, Capabilities, Export, FileType, FsError, FsLimits, FsResult, FsStat, PosixAcl, Volume,
    Wait,
};
use xdr::Writer;

/// A file system: a volume, or the directories above the exports.
pub(in crate::v4) struct System<'s> {
    /// The minor version that is spoken.
    pub(in crate::v4) minor: u32,
    state: &'s State,
    export: Option<&'s Export>,
    blocking: Blocking,
    /// The address at which the client has reached us.
    local: IpAddr,
}

/// An object whose attributes are asked for.
pub(in crate::v4) struct Subject<'s> {
    /// Where it lies.
    pub(in crate::v4) system: &'s System<'s>,
    /// Its filehandle; it may be left out where that is not asked for.
    pub(in crate::v4) handle: Option<&'s Handle>,
    /// Its own.
    pub(in crate::v4) attrs: &'s Attrs,
    /// The number of what is covered by it, or its own.
    pub(in crate::v4) mounted_on: u64,
    /// Looks its list of POSIX up.
    pub(in crate::v4) acl: &'s dyn Fn() -> FsResult<Option<Arc<PosixAcl>>>,
}

/// Reads these attributes of the current object.
#[inline]
pub(super) fn of_current<R>(
    ops: &mut Ops<'_, '_>,
    attributes: &Bitmap,
    read: impl FnOnce(&Subject<'_>) -> Result<R, Stop>,
) -> Result<R, Stop> {
    let written = ops.ask_writer(attributes)?;
    let (call, minor) = (&mut *ops.call, ops.minor);
    let place = ops.current.as_ref().ok_or(Stop::Status(Status::NOFILEHANDLE))?;
    let mut attrs = match (place, ops.written) {
        // A WRITE has just looked at them.
        (Place::File(_), Some(attrs)) => attrs,
        (Place::File(file), None) => call.attrs(file)?,
        (Place::Pseudo(place), _) => place.attrs(call)?,
    };
    if let Some(size) = written {
        attrs.size = size;
    }
    of_place(call, minor, (place, attributes), &attrs, read)
}

/// Reads attributes of an object that has `attrs`.
#[inline]
fn of_place<R>(
    call: &Call<'_>,
    minor: u32,
    (place, request): (&Place, &Bitmap),
    attrs: &Attrs,
    read: impl FnOnce(&Subject<'_>) -> Result<R, Stop>,
) -> Result<R, Stop> {
    match place {
        Place::File(file) => {
            let system = System::new(call, minor, Some(file.export()));
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
            let covered = is_root.then(|| pseudo::mounted_on(&call.service.signer, file.export())).flatten();
            let mounted_on = covered.unwrap_or(attrs.file_id);
            let acl = || file.posix_acl(attrs, call.blocking);
            read(&Subject { system: &system, handle: Some(file.handle()), attrs, mounted_on, acl: &acl })
        }
        Place::Pseudo(place) => {
            let system = System::new(call, minor, None);
            let handle = place.handle(&call.service.signer);
            let (mounted_on, acl) = (attrs.file_id, || Ok(None));
            read(&Subject { system: &system, handle: Some(&handle), attrs, mounted_on, acl: &acl })
        }
    }
}

/// Writes attributes of what is at a place as a `fattr4`.
pub(in crate::v4) fn encode_place(
    ops: &Ops<'_, '_>,
    place: &Place,
    request: &Bitmap,
    w: &mut Writer<'_>,
) -> Done {
    let attrs = match place {
        Place::File(file) => file.attrs(ops.call.blocking),
        Place::Pseudo(place) => place.attrs(ops.call),
    }?;
    of_place(ops.call, ops.minor, (place, request), &attrs, |subject| table::encode(request, subject, w))
}

impl<'s> System<'s> {
    /// The volume of an export; the directories above the exports if there is none.
    #[inline]
    pub(in crate::v4) fn new(call: &Call<'s>, minor: u32, export: Option<&'s Export>) -> Self {
        Self { minor, state: &call.service.v4, export, blocking: call.blocking, local: call.local }
    }

    /// How long a client keeps its state without a sign of life, in seconds.
    pub(super) fn lease_s(&self) -> u32 {
        self.state.lease_s
    }

    /// Whether clients may keep times of files that are delegated to them for writing.
    pub(super) fn delegates_times(&self) -> bool {
        self.state.delegates_times(self.minor)
    }

    /// How users and groups are named.
    #[inline]
    pub(super) fn naming(&self) -> Naming<'s> {
        Naming::of(self.state, self.blocking)
    }

    fn volume(&self) -> Option<&'s Volume> {
        self.export.map(|export| &*export.volume)
    }

    fn keeps_born_of(&self, attrs: &Attrs) -> bool {
        self.volume().is_some_and(|volume| volume.has_extra_attrs(attrs))
    }

    pub(super) fn locations(&self) -> Locations<'s> {
        let (path, endpoints) =
            self.export.map_or(("/", &[][..]), |export| (&export.path, &export.endpoints));
        Locations { path, local: self.local, endpoints, port: self.state.port }
    }

    pub(super) fn fsid(&self) -> Fsid {
        Fsid { major: self.volume().map_or(0, |volume| volume.id().0), minor: 0 }
    }

    pub(super) fn is_pseudo(&self) -> bool {
        self.export.is_none()
    }

    pub(super) fn limits(&self) -> FsLimits {
        let none =
            FsLimits { links_max: 1, name_bytes_max: 255, file_bytes_max: i64::MAX as u64, time_step_ns: 1 };
        self.volume().map_or(none, |volume| *volume.limits())
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        self.volume().map_or_else(Capabilities::default, Volume::capabilities)
    }

    /// Capacity and free space, for which storage is asked.
    pub(super) fn stat(&self) -> FsResult<FsStat> {
        match self.volume() {
            None => Ok(FsStat::default()),
            Some(_) if self.blocking == Blocking::Never => Err(FsError::Wait(Wait::Storage)),
            Some(volume) => volume.stat(),
        }
    }
}

impl Subject<'_> {
    /// The attributes that it has, those among them that can only be set.
    pub(in crate::v4) fn supported(&self) -> Bitmap {
        let had = self.had_of(&table::supported(self.system.minor));
        if self.system.delegates_times() { had | times::KEPT_TIMES } else { had }
    }

    /// Those of the attributes that it has.
    #[inline]
    pub(super) fn had_of(&self, request: &Bitmap) -> Bitmap {
        let mut had = *request & table::supported(self.system.minor);
        // What has it can be given another one.
        if had.contains(attr::TIME_CREATE) && !self.system.keeps_born_of(self.attrs) {
            had.remove(attr::TIME_CREATE);
        }
        if had.contains(attr::CLONE_BLKSIZE) && self.clone_bytes().is_none() {
            had.remove(attr::CLONE_BLKSIZE);
        }
        had
    }

    /// What the ends of a cloned range must be multiples of; `None` if nothing can be cloned.
    pub(super) fn clone_bytes(&self) -> Option<u32> {
        let bytes = self.system.capabilities().ranges?.clone_bytes?;
        u32::try_from(bytes).ok()
    }
}

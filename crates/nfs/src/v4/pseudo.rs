//! The directories above the exports, as objects with filehandles and attributes.
//!
//! They hold nothing but the names that lead to the exports which admit the client. Where an export is, its
//! root takes the place of the directory. A filehandle carries a number of the path, drawn from the service's
//! secret, and is found again by comparing: there are few of them, and they are used while something is
//! mounted.

use super::filehandle::Filehandle;
use crate::call::{Call, File};
use crate::handle::{Handle, HandleSigner};
use std::sync::Arc;
use vfs::{Attrs, Device, Export, ExportId, FileKey, FileType, FsError, FsResult, PseudoDir, Time};

/// The export number in their filehandles (`docs/formats/file-handle.md`). Those of exports are drawn at
/// random.
const PSEUDO: ExportId = ExportId(u64::MAX);

/// A directory above the exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PseudoNode {
    path: Box<str>,
    /// The file id, and the key in the filehandle.
    number: u64,
}

/// An entry of such a directory.
pub(super) struct PseudoEntry {
    pub(super) cookie: u64,
    pub(super) name: Box<str>,
    /// The directory of that name. An export may be mounted on it.
    pub(super) node: PseudoNode,
}

/// Whether a filehandle claims to be that of a directory above the exports.
#[inline]
pub(super) fn claims(handle: &[u8]) -> bool {
    HandleSigner::claimed_export(handle) == Some(PSEUDO)
}

/// The directory of a filehandle that [claims](claims) to be above the exports. [`FsError::Stale`] if it no longer
/// exists, or not for this client.
pub(super) fn of_handle(call: &Call<'_>, handle: &[u8]) -> FsResult<PseudoNode> {
    let (_, key) = call.service.signer.verify(handle)?;
    let number = u64::from_be_bytes(key.bytes().try_into().map_err(|_| FsError::BadHandle)?);
    let visible = call.namespace.exports().iter().filter(|export| export.rule(call.origin()).is_some());
    let above =
        visible.flat_map(|export| export.path.match_indices('/').skip(1).map(|(end, _)| &export.path[..end]));
    let mut places = ["/"].into_iter().chain(above).map(|path| PseudoNode::new(&call.service.signer, path));
    places.find(|place| place.number == number).ok_or(FsError::Stale)
}

pub(super) fn root(call: &mut Call<'_>) -> FsResult<Filehandle> {
    let root = call.namespace.root(call.origin());
    filehandle_of(call, &root)
}

/// Looks a name up in a directory above the exports.
pub(super) fn lookup(call: &mut Call<'_>, minor: u32, dir: &PseudoNode, name: &[u8]) -> FsResult<Filehandle> {
    let name = std::str::from_utf8(name).map_err(|_| FsError::NotFound)?;
    let Some(found) = dir.dir(call)?.lookup(name) else {
        let path = format!("{}/{name}", dir.path.trim_end_matches('/'));
        let hidden = call.namespace.at_or_below(&path);
        call.service.log_refusal(call.origin(), &format!("4.{minor}"), &path, hidden);
        return Err(FsError::NotFound);
    };
    filehandle_of(call, &found)
}

/// The parent of a path; [`FsError::NotFound`] for the root.
pub(super) fn parent(call: &mut Call<'_>, path: &str) -> FsResult<Filehandle> {
    let (above, _) = path.rsplit_once('/').filter(|_| path != "/").ok_or(FsError::NotFound)?;
    let dir = dir_at(call, above)?;
    filehandle_of(call, &dir)
}

/// The root of an export mounted on a name in `dir`, if `dir` is the root of another export.
pub(super) fn covering(call: &mut Call<'_>, dir: &File, name: &[u8]) -> FsResult<Option<Filehandle>> {
    let Some(found) = below(call, dir).and_then(|above| above.lookup(std::str::from_utf8(name).ok()?)) else {
        return Ok(None);
    };
    found.export().map(|export| export_root(call, export).map(Filehandle::File)).transpose()
}

/// The directory between the export of `dir` and exports below it, under a name that `dir` does not have.
pub(super) fn between(call: &mut Call<'_>, dir: &File, name: &[u8]) -> FsResult<Filehandle> {
    let found = below(call, dir).and_then(|above| above.lookup(std::str::from_utf8(name).ok()?));
    filehandle_of(call, &found.ok_or(FsError::NotFound)?)
}

/// The roots of exports that have taken the places of names in `dir`, with these names.
pub(super) fn covering_all(call: &mut Call<'_>, dir: &File) -> FsResult<Vec<(Box<[u8]>, Filehandle)>> {
    let Some(above) = below(call, dir) else { return Ok(Vec::new()) };
    let children = above.list().into_iter().filter_map(|name| Some((name, above.lookup(name)?.export()?)));
    children
        .map(|(name, export)| Ok((name.as_bytes().into(), Filehandle::File(export_root(call, export)?))))
        .collect()
}

/// The pseudo directory that the root `dir` covers, if exports lie below it.
fn below<'n>(call: &Call<'n>, dir: &File) -> Option<PseudoDir<'n>> {
    let leads_on = call.namespace.leads_on(dir.export_id()) && dir.is_root();
    if leads_on { dir_at(call, &dir.export().path).ok() } else { None }
}

/// The file id of the directory that an export's root covers, for `mounted_on_fileid`; `None` for an export at `/`.
pub(super) fn mounted_on(signer: &HandleSigner, export: &Export) -> Option<u64> {
    (export.path != "/").then(|| PseudoNode::new(signer, &export.path).number)
}

/// The filehandle of a directory: the root of an export, or the directory itself.
fn filehandle_of(call: &mut Call<'_>, dir: &PseudoDir<'_>) -> FsResult<Filehandle> {
    match dir.export() {
        Some(export) => Ok(Filehandle::File(export_root(call, export)?)),
        None => Ok(Filehandle::Pseudo(PseudoNode::new(&call.service.signer, dir.path()))),
    }
}

fn export_root(call: &mut Call<'_>, export: &Arc<Export>) -> FsResult<File> {
    export.volume.check_open()?;
    let cached = call.cache_file(export.root());
    call.admit(cached)
}

fn dir_at<'n>(call: &Call<'n>, path: &str) -> FsResult<PseudoDir<'n>> {
    let namespace = call.namespace;
    let mut names = path.split('/').filter(|name| !name.is_empty());
    names.try_fold(namespace.root(call.origin()), |dir, name| dir.lookup(name)).ok_or(FsError::Stale)
}

impl PseudoNode {
    fn new(signer: &HandleSigner, path: &str) -> Self {
        // Some clients fail on a file id of 0.
        Self { path: path.into(), number: signer.number(&format!("pseudo:{path}")).max(1) }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The number, never 0.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn handle(&self, signer: &HandleSigner) -> Handle {
        let key = FileKey::new(&self.number.to_be_bytes()).expect("eight bytes are a key");
        signer.sign(PSEUDO, &key)
    }

    /// The directory as the client sees it now. [`FsError::Stale`] if nothing is left that it would lead to.
    pub(super) fn dir<'n>(&self, call: &Call<'n>) -> FsResult<PseudoDir<'n>> {
        dir_at(call, &self.path)
    }

    /// The entries, in the order of their cookies.
    pub(super) fn children(&self, call: &Call<'_>) -> FsResult<Vec<PseudoEntry>> {
        let (dir, signer) = (self.dir(call)?, &call.service.signer);
        let child = |name: &str| {
            let path = format!("{}/{name}", self.path.trim_end_matches('/'));
            // Some clients treat a cookie as a signed number.
            let cookie = (signer.number(&format!("entry:{name}")) >> 1).max(1);
            PseudoEntry { cookie, name: name.into(), node: Self::new(signer, &path) }
        };
        let mut children: Vec<PseudoEntry> = dir.list().into_iter().map(child).collect();
        // Cookies are hashes: the order is arbitrary but stable.
        children.sort_unstable_by_key(|child| child.cookie);
        Ok(children)
    }

    /// The filehandle of this path: the root of an export, or the directory itself.
    pub(super) fn resolve(&self, call: &mut Call<'_>) -> FsResult<Filehandle> {
        let dir = self.dir(call)?;
        filehandle_of(call, &dir)
    }

    /// The attributes. The change attribute changes when an export below appears or disappears.
    pub(super) fn attrs(&self, call: &Call<'_>) -> FsResult<Attrs> {
        let mut below = String::new();
        for export in self.dir(call)?.exports_below() {
            below.push_str(&format!("{}:{}\n", export.path, export.id.0));
        }
        let time = Time::default();
        Ok(Attrs {
            file_type: FileType::Directory,
            mode: 0o555,
            links: 2,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            device: Device::default(),
            file_id: self.number,
            accessed: time,
            modified: time,
            changed: time,
            change: call.service.signer.number(&below),
            born: None,
            view: vfs::ViewId::LIVE,
        })
    }
}

//! The state of a tree, to compare a snapshot with the live files of its time.

use crate::conformance::expect::{attrs, contents, eq, list, settled};
use crate::conformance::rig::{Failure, Outcome, name};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use vfs::{
    Attrs, Backend, Blocking, FileKey, FileType, FsError, NodeRef, PosixAcl, Seek, Snapshots, ViewId,
    XattrName,
};

/// Every object of a tree by its path; the top has none.
pub(super) type State = BTreeMap<String, Observed>;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observed {
    key: FileKey,
    attrs: Attrs,
    contents: Vec<u8>,
    /// First and last byte of each part with data.
    data: Vec<(u64, u64)>,
    target: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    acls: [Option<Arc<PosixAcl>>; 2],
}

/// The state of the tree below `top`. Keys, names, listings and parents must agree.
pub(super) fn of(backend: &dyn Backend, top: &NodeRef) -> Outcome<State> {
    let mut state = State::new();
    let mut waiting = vec![(String::new(), NodeRef::clone(top))];
    while let Some((path, node)) = waiting.pop() {
        let observed = observe(&node)?;
        let by_key = backend.node(&node.key(), Blocking::Allowed)?;
        eq(format!("{path:?} by its key"), steady(&attrs(&by_key)?), observed.attrs)?;
        if observed.attrs.file_type == FileType::Directory {
            for entry in list(&node, 0, true, 100)? {
                let text = String::from_utf8(entry.name).map_err(|_| Failure::new("a strange name"))?;
                if matches!(&*text, "." | "..") {
                    continue;
                }
                let found = node.lookup(name(&text), Blocking::Allowed)?;
                let listed = entry.object.map(|(key, attrs)| (key, steady(&attrs)));
                eq(
                    format!("{path}/{text} in the listing"),
                    listed,
                    Some((found.node.key(), steady(&found.attrs))),
                )?;
                eq(format!("the number of {path}/{text}"), entry.file_id, found.attrs.file_id)?;
                if found.attrs.file_type == FileType::Directory {
                    eq("the parent", found.node.parent()?.node.key(), node.key())?;
                }
                waiting.push((format!("{path}/{text}"), found.node));
            }
        }
        state.insert(path, observed);
    }
    Ok(state)
}

/// The state of the tree of a directory in a snapshot.
pub(super) fn in_snapshot(snapshots: &dyn Snapshots, view: ViewId, top: &NodeRef) -> Outcome<State> {
    let snapshot =
        snapshots.open(view).map_err(|error| Failure::from(error).during(format!("open {view:?}")))?;
    let top = snapshot.node(&top.key(), Blocking::Allowed)?;
    of(&*snapshot, &top)
}

/// Two states are equal; else the failure names the path.
#[track_caller]
pub(super) fn same(what: &str, got: &State, want: &State) -> Outcome {
    eq(format!("{what}: names"), got.keys().collect::<Vec<_>>(), want.keys().collect())?;
    got.iter().try_for_each(|(path, got)| {
        let want = want.get(path).ok_or_else(|| Failure::new(path.as_str()))?;
        // A snapshot may not know holes that were filled since: they count as data.
        let covers = |(first, end): &(u64, u64)| got.data.iter().any(|(from, to)| from <= first && end <= to);
        eq(format!("{what}: {path:?} has its data"), want.data.iter().all(covers), true)?;
        let got = Observed { data: want.data.clone(), ..got.clone() };
        eq(format!("{what}: {path:?}"), &got, want)
    })
}

fn observe(node: &NodeRef) -> Outcome<Observed> {
    let now = attrs(node)?;
    let is_file = now.file_type == FileType::Regular;
    let is_link = now.file_type == FileType::Symlink;
    Ok(Observed {
        key: node.key(),
        attrs: steady(&now),
        contents: if is_file { contents(node)? } else { Vec::new() },
        data: if is_file { data(node, now.size)? } else { Vec::new() },
        target: if is_link { node.read_link()? } else { Vec::new() },
        xattrs: xattrs(node, &now)?,
        acls: match node.acls() {
            Some(acls) => [acls.access_acl(&now, Blocking::Allowed)?, acls.default_acl()?],
            None => [None, None],
        },
    })
}

/// Attributes without the change number, for which each backend has its own rule.
fn steady(attrs: &Attrs) -> Attrs {
    Attrs { change: 0, ..settled(attrs) }
}

fn data(node: &NodeRef, size: u64) -> Outcome<Vec<(u64, u64)>> {
    let Some(ranges) = node.ranges() else { return Ok(Vec::new()) };
    let (mut parts, mut at) = (Vec::new(), 0);
    while at < size {
        let Some(begin) = ranges.seek(at, Seek::Data)? else { break };
        at = ranges.seek(begin, Seek::Hole)?.unwrap_or(size);
        parts.push((begin, at));
    }
    Ok(parts)
}

fn xattrs(node: &NodeRef, attrs: &Attrs) -> Outcome<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut values = BTreeMap::new();
    let has_some = matches!(attrs.file_type, FileType::Regular | FileType::Directory);
    let Some(xattrs) = node.xattrs().filter(|_| has_some) else { return Ok(values) };
    let mut names = Vec::new();
    xattrs.list(0, &mut |name, _| {
        names.push(name.bytes().to_vec());
        ControlFlow::Continue(())
    })?;
    for name in names {
        values.insert(name.clone(), xattrs.get(XattrName::new(&name)?)?);
    }
    // The service's own are never listed.
    match xattrs.get(XattrName::EXTRA_ATTRS) {
        Err(FsError::NotFound) => {}
        value => _ = values.insert(XattrName::EXTRA_ATTRS.bytes().to_vec(), value?),
    }
    Ok(values)
}

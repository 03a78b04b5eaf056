//! The operations on ranges and extended attributes.

use super::{Body, File, Oracle, Verdict, agree};
use crate::conformance::expect::eq;
use crate::conformance::rig::{Failure, Lack, Outcome};
use std::ops::ControlFlow;
use vfs::backend::KEEP_SET_ID;
use vfs::{FsError, FsResult, NodeRef, Ranges, SetXattr, Span, XattrName, Xattrs};

const KEYS: &[&str] = &["key", "Key", "user.key", "..", "\u{e4}"];

fn ranges(node: &NodeRef) -> FsResult<&dyn Ranges> {
    node.ranges().ok_or(FsError::NotSupported)
}

fn xattrs(node: &NodeRef) -> FsResult<&dyn Xattrs> {
    node.xattrs().ok_or(FsError::NotSupported)
}

fn key(text: &str) -> XattrName<'_> {
    XattrName::new(text.as_bytes()).expect("the suite's own names are valid")
}

impl Oracle<'_> {
    /// Allocates, punches or zeroes a range.
    pub(super) fn change_range(&mut self) -> Outcome {
        let file = self.choose(|body| matches!(body, Body::Data(_)));
        let [offset, len, kind] = [self.random.below(20_000), self.random.below(9000), self.random.below(3)];
        let File { node, links, body, mode, .. } = &mut self.files[file];
        if *links == 0 {
            return Ok(());
        }
        let (at, count) = (offset as u64, len as u64);
        let done = match kind {
            0 => ranges(node)?.allocate(at, count, KEEP_SET_ID),
            1 => ranges(node)?.punch(at, count, KEEP_SET_ID),
            _ => ranges(node)?.zero(at, count, KEEP_SET_ID),
        };
        let Body::Data(data) = body else {
            let refusals = &[FsError::IsDirectory, FsError::Invalid];
            return agree("a range of what is no file", done, Err(refusals)).map(drop);
        };
        if kind == 0 && len > 0 {
            data.resize(data.len().max(offset + len), 0);
        } else if kind > 0 {
            let end = data.len().min(offset + len);
            data[offset.min(end)..end].fill(0);
        }
        let what = format!("change {kind} of {len} at {offset} of {file}");
        if let Some(change) = agree(&what, done, Ok(()))? {
            eq("size", change.after.size, data.len() as u64)?;
            *mode = change.after.mode;
        }
        Ok(())
    }

    /// Copies a range from one file to another, or within one.
    pub(super) fn copy_range(&mut self) -> Outcome {
        let [source, target] = [0; 2].map(|_| self.choose(|body| matches!(body, Body::Data(_))));
        let [from, to, len] = [20_000, 20_000, 9000].map(|bound| self.random.below(bound));
        let [(source_file, part), (target_file, _)] =
            [source, target].map(|file| (&self.files[file], &self.files[file].body));
        let part = match (part, &target_file.body) {
            _ if source_file.links == 0 || target_file.links == 0 => return Ok(()),
            (Body::Data(data), Body::Data(_)) => {
                data.get(from..).map_or(&[][..], |rest| &rest[..len.min(rest.len())]).to_vec()
            }
            _ => return Ok(()),
        };
        let span = Span { source: from as u64, target: to as u64, len: len as u64 };
        let overlaps = source == target && from.abs_diff(to) < part.len();
        let verdict: Verdict = if overlaps { Err(&[FsError::Invalid]) } else { Ok(()) };
        let done = ranges(&source_file.node)?.copy_to(&target_file.node, &span, KEEP_SET_ID);
        let what = format!("copy {len} at {from} of {source} to {to} of {target}");
        let Some((copied, change)) = agree(&what, done, verdict)? else { return Ok(()) };
        eq("bytes copied", copied, part.len() as u64)?;
        let File { body, mode, .. } = &mut self.files[target];
        *mode = change.after.mode;
        if let Body::Data(data) = body
            && !part.is_empty()
        {
            data.resize(data.len().max(to + part.len()), 0);
            data[to..to + part.len()].copy_from_slice(&part);
        }
        Ok(())
    }

    pub(super) fn change_xattr(&mut self) -> Outcome {
        let file = self.choose(|body| matches!(body, Body::Data(_) | Body::Dir { .. }));
        let (text, kind) = (*self.random.pick(KEYS), self.random.below(4));
        let value = vec![b'v'; self.random.below(100)];
        let (plain, known) = (self.carries(file), self.files[file].xattrs.contains_key(text));
        if self.files[file].links == 0 || !self.fixture.can(Lack::Xattrs) {
            return Ok(());
        }
        let node = self.files[file].node.clone();
        let set = |how| xattrs(&node)?.set(key(text), &value, how, &|_| Ok(()));
        let (done, verdict): (_, Verdict) = match kind {
            _ if !plain => (set(SetXattr::Either), Err(&[FsError::NotSupported])),
            0 => (set(SetXattr::Either), Ok(())),
            1 => (set(SetXattr::Create), if known { Err(&[FsError::Exists]) } else { Ok(()) }),
            2 => (set(SetXattr::Replace), if known { Ok(()) } else { Err(&[FsError::NotFound]) }),
            _ => {
                let removed = xattrs(&node)?.remove(key(text), &|_| Ok(()));
                (removed, if known { Ok(()) } else { Err(&[FsError::NotFound]) })
            }
        };
        if agree(&format!("change {kind} of attribute {text} of {file}"), done, verdict)?.is_some() {
            let expected = &mut self.files[file].xattrs;
            if kind < 3 {
                expected.insert(text, value)
            } else {
                expected.remove(text)
            };
        }
        Ok(())
    }

    pub(super) fn check_xattrs(&self, file: usize) -> Outcome {
        if !self.carries(file) || !self.fixture.can(Lack::Xattrs) {
            return Ok(());
        }
        let File { node, xattrs: want, .. } = &self.files[file];
        let got = xattrs(node)?;
        let mut names = Vec::new();
        got.list(0, &mut |name, _| {
            names.push(name.bytes().to_vec());
            ControlFlow::Continue(())
        })?;
        names.sort();
        let wanted: Vec<_> = want.keys().map(|text| text.as_bytes().to_vec()).collect();
        eq(format!("attributes of {file}"), names, wanted)?;
        want.iter().try_for_each(|(text, value)| {
            let got = got.get(key(text)).map_err(|error| Failure::from(error).during(text))?;
            eq(format!("attribute {text} of {file}"), &got, value)
        })
    }

    fn carries(&self, file: usize) -> bool {
        matches!(self.files[file].body, Body::Data(_) | Body::Dir { .. })
    }
}

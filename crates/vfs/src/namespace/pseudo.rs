//! The directories above the exports: they hold nothing but the names that lead to them.

use super::{Export, Namespace, Origin};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A directory in the tree of exports, as seen from one origin. A path that leads only to exports that do not admit the
/// origin is hidden.
#[derive(Clone, Copy)]
pub struct PseudoDir<'n> {
    namespace: &'n Namespace,
    origin: Origin,
    /// Without a `/` at the end; empty for the root.
    path: &'n str,
}

impl<'n> PseudoDir<'n> {
    pub(super) fn root(namespace: &'n Namespace, origin: Origin) -> Self {
        Self { namespace, origin, path: "" }
    }

    pub fn path(&self) -> &'n str {
        if self.path.is_empty() { "/" } else { self.path }
    }

    /// The export at this path, if it admits the client: its root takes the place of this directory.
    pub fn export(&self) -> Option<&'n Arc<Export>> {
        self.visible().find(|export| export.path.trim_end_matches('/') == self.path)
    }

    pub fn lookup(&self, name: &str) -> Option<Self> {
        let path = self.visible().find_map(|export| {
            let (first, end) = self.next(export)?;
            (first == name).then_some(&export.path[..end])
        })?;
        Some(Self { path, ..*self })
    }

    /// The names in this directory, in order.
    pub fn list(&self) -> BTreeSet<&'n str> {
        self.exports_below().filter_map(|export| Some(self.next(export)?.0)).collect()
    }

    /// The exports that lie below this directory, in the namespace's order.
    pub fn exports_below(&self) -> impl Iterator<Item = &'n Arc<Export>> {
        self.visible().filter(|export| self.next(export).is_some())
    }

    /// The next path component towards an export, and its end position in the export's path.
    fn next(&self, export: &'n Export) -> Option<(&'n str, usize)> {
        let below = export.path.strip_prefix(self.path)?.strip_prefix('/')?;
        let name = below.split('/').next().filter(|name| !name.is_empty())?;
        Some((name, self.path.len() + 1 + name.len()))
    }

    fn visible(&self) -> impl Iterator<Item = &'n Arc<Export>> + use<'n> {
        let origin = self.origin;
        self.namespace.exports().iter().filter(move |export| export.rule(origin).is_some())
    }
}

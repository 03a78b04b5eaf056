//! The directories above the exports: they hold nothing but the names that lead to them.

use super::{Export, Namespace, Origin};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A directory in the tree of exports, as it is seen from one origin: what leads only to exports that do not admit it is
/// not there.
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

    /// Its path.
    pub fn path(&self) -> &'n str {
        if self.path.is_empty() { "/" } else { self.path }
    }

    /// What is exported here, if that admits the client: its root takes the place of this directory.
    pub fn export(&self) -> Option<&'n Arc<Export>> {
        self.visible().find(|export| export.path.trim_end_matches('/') == self.path)
    }

    /// What lies below this directory under a name.
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

    /// The name that leads from here to an export, and where in its path that ends.
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

#[cfg(test)]
mod tests {
    use crate::{Durability, Export, ExportId, ExportRule, MemFs, Namespace, Origin, Time, Volume, VolumeId};
    use std::sync::Arc;

    fn namespace(exports: &[(&str, &[&str])]) -> Namespace {
        let fs = MemFs::new(Arc::new(Time::default));
        let volume = Arc::new(Volume::new(VolumeId(1), "v", Arc::new(fs), Durability::Sync, 1));
        let export = |(number, &(path, clients)): (u64, &(&str, &[&str]))| {
            let clients = clients.iter().map(|range| range.parse().unwrap()).collect();
            let rules = vec![ExportRule { clients, ..ExportRule::everybody() }];
            Export { id: ExportId(number), ..Export::new(path, Arc::clone(&volume), rules) }
        };
        Namespace::new((1..).zip(exports).map(export))
    }

    #[test]
    fn names_lead_to_the_exports_that_admit_the_client() {
        let served = namespace(&[
            ("/a/b", &[]),
            ("/a/c", &["10.0.0.0/8"]),
            ("/ab", &["10.0.0.0/8"]),
            ("/x/y/z", &["192.0.2.1"]),
            ("/a/b/below", &[]),
        ]);
        let names = |client: &str, path: &[&str]| {
            let root = served.root(Origin::of(client.parse().unwrap()));
            let dir = path.iter().try_fold(root, |dir, name| dir.lookup(name))?;
            Some((dir.list().into_iter().collect::<Vec<_>>(), dir.export().map(|export| export.id.0)))
        };
        assert_eq!(names("10.1.1.1", &[]), Some((vec!["a", "ab"], None)));
        assert_eq!(names("192.0.2.1", &[]), Some((vec!["a", "x"], None)));
        assert_eq!(names("10.1.1.1", &["a"]), Some((vec!["b", "c"], None)));
        assert_eq!(names("192.0.2.1", &["a"]), Some((vec!["b"], None)));
        assert_eq!(
            names("192.0.2.1", &["a", "b"]),
            Some((vec!["below"], Some(1))),
            "both leads on and is one"
        );
        assert_eq!(names("192.0.2.1", &["x", "y", "z"]), Some((vec![], Some(4))));
        for hidden in [&["ab"][..], &["a", "c"], &["a", ""], &[""], &["a", "b", "below", "more"]] {
            assert_eq!(names("192.0.2.1", hidden), None, "{hidden:?}");
        }
        let root = served.root(Origin::of("10.1.1.1".parse().unwrap()));
        assert_eq!(root.lookup("a").map(|dir| dir.path()), Some("/a"));
    }

    #[test]
    fn exports_lead_on_to_those_below_their_paths() {
        let everybody: &[&str] = &[];
        let served = namespace(&[
            ("/a", everybody),
            ("/a-b", everybody),
            ("/a/b/c", &["192.0.2.1"]),
            ("/ab", everybody),
            ("/ab/c", everybody),
        ]);
        let leading: Vec<_> = (1..=6).filter(|&number| served.leads_on(ExportId(number))).collect();
        assert_eq!(leading, [1, 4], "whoever they admit");
        let below = |client: &str, name: &str| {
            let dir = served.root(Origin::of(client.parse().unwrap())).lookup(name).unwrap();
            dir.exports_below().map(|export| export.id.0).collect::<Vec<_>>()
        };
        assert_eq!((below("192.0.2.1", "a"), below("10.0.0.1", "a")), (vec![3], vec![]));
        assert_eq!(below("10.0.0.1", "ab"), [5]);
        let top = namespace(&[("/", everybody), ("/a", everybody)]);
        assert!(top.leads_on(ExportId(1)) && !top.leads_on(ExportId(2)));
    }

    #[test]
    fn an_export_may_be_the_root() {
        let served = namespace(&[("/", &[]), ("/a", &[])]);
        let root = served.root(Origin::of("10.1.1.1".parse().unwrap()));
        assert_eq!((root.path(), root.export().map(|export| export.id.0)), ("/", Some(1)));
        assert_eq!(root.list().into_iter().collect::<Vec<_>>(), ["a"]);
    }
}

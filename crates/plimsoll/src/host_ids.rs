//! The users and groups of this host, wherever it has them from: files, a directory, anything that its name service switch knows.

use nfs::id_map::{HostIds, IdKind, IdNames};
use nix::unistd::{Gid, Group, Uid, User};
use std::io;

/// The host's.
struct NameService;

impl HostIds for NameService {
    fn name(&self, kind: IdKind, id: u32) -> io::Result<Option<String>> {
        Ok(match kind {
            IdKind::User => User::from_uid(Uid::from_raw(id))?.map(|user| user.name),
            IdKind::Group => Group::from_gid(Gid::from_raw(id))?.map(|group| group.name),
        })
    }

    fn id(&self, kind: IdKind, name: &str) -> io::Result<Option<u32>> {
        Ok(match kind {
            IdKind::User => User::from_name(name)?.map(|user| user.uid.as_raw()),
            IdKind::Group => Group::from_name(name)?.map(|group| group.gid.as_raw()),
        })
    }
}

/// The host's users and groups as names in `domain`; `None` without one.
pub(crate) fn names(domain: Option<&str>) -> anyhow::Result<Option<IdNames>> {
    Ok(domain.map(|domain| IdNames::new(domain, Box::new(NameService))).transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_by_name_and_by_number() {
        for kind in [IdKind::User, IdKind::Group] {
            let name = NameService.name(kind, 0).unwrap();
            assert_eq!(name.as_deref(), Some("root"));
            assert_eq!(NameService.id(kind, "root").unwrap(), Some(0));
            assert_eq!(NameService.id(kind, "nobody of this name").unwrap(), None);
            assert_eq!(NameService.name(kind, 4_000_000_001).unwrap(), None);
        }
    }

    #[test]
    fn a_domain_is_looked_at_before_anything_is_served() {
        assert!(names(None).unwrap().is_none());
        assert!(names(Some("example.org")).unwrap().is_some());
        let refused = names(Some("a@b")).err().expect("it is none").to_string();
        assert!(refused.starts_with("'a@b' is not a valid domain"), "{refused}");
    }
}

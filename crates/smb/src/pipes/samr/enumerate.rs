//! Lists of users and groups in parts (MS-SAMR §3.1.5.2, §3.1.5.3).

use super::Sam;
use crate::limits::ACCOUNT_LIST_BYTES_MAX;
use crate::state::pipe_handles::DomainKind;
use identity::{ListEntry, builtin_aliases};
use smb_wire::rpc::samr::{Display, DisplayInformation, Entry, ObjectKind, UserAccountControl};

type AccountList<'a> = Box<dyn Iterator<Item = ListEntry<'a>> + 'a>;

pub(super) struct ListPart<'a> {
    pub(super) entries: Vec<Entry<'a>>,
    pub(super) has_more: bool,
}

/// Lists the entries after the relative identifier `rid`, in an ordered list.
pub(super) fn list_after(list: AccountList<'_>, rid: u32, preferred_bytes: u32) -> ListPart<'_> {
    fill_part(list.skip_while(|listed| listed.rid <= rid), u32::MAX, preferred_bytes, false)
}

/// Lists at most `most` entries from `index` on.
pub(super) fn display_from<'a>(
    list: impl Fn() -> AccountList<'a>,
    index: u32,
    most: u32,
    preferred_bytes: u32,
) -> Display<'a> {
    let total_available = list().map(|listed| entry(listed).size(true)).sum();
    let skipped = usize::try_from(index).unwrap_or(usize::MAX);
    let ListPart { entries, has_more } = fill_part(list().skip(skipped), most, preferred_bytes, true);
    Display { total_available, index, entries, has_more }
}

/// Takes as many entries as fit, but at least one if the client accepts any.
fn fill_part<'a>(
    list: impl Iterator<Item = ListEntry<'a>>,
    most: u32,
    preferred_bytes: u32,
    is_display: bool,
) -> ListPart<'a> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut room = usize::try_from(preferred_bytes).unwrap_or(usize::MAX).min(ACCOUNT_LIST_BYTES_MAX);
    let mut entries = Vec::new();
    for entry in list.map(entry) {
        let size = entry.size(is_display);
        if entries.len() == most || (size > room && !entries.is_empty()) {
            return ListPart { entries, has_more: true };
        }
        room = room.saturating_sub(size);
        entries.push(entry);
    }
    ListPart { entries, has_more: false }
}

fn entry(ListEntry { rid, name }: ListEntry<'_>) -> Entry<'_> {
    Entry { rid, name }
}

impl Sam<'_> {
    /// Lists the objects of one kind in a domain, ordered by relative identifier. Users must have all bits of
    /// `control`.
    pub(super) fn enumerate(
        &self,
        domain: DomainKind,
        kind: ObjectKind,
        control: UserAccountControl,
    ) -> AccountList<'_> {
        match (domain, kind) {
            (DomainKind::Account, ObjectKind::User) if UserAccountControl::ALL.contains(control) => {
                Box::new(self.accounts.users())
            }
            (DomainKind::Account, ObjectKind::Group) => {
                Box::new([self.accounts.domain_users_group()].into_iter())
            }
            (DomainKind::Account, ObjectKind::Alias) => Box::new(self.accounts.groups()),
            (DomainKind::Builtin, ObjectKind::Alias) => Box::new(builtin_aliases()),
            (_, ObjectKind::User) | (DomainKind::Builtin, ObjectKind::Group) => Box::new([].into_iter()),
        }
    }

    /// The entries that a class displays for a domain, ordered by name. No class displays aliases.
    pub(super) fn display(&self, domain: DomainKind, class: DisplayInformation) -> AccountList<'_> {
        match (domain, class) {
            (DomainKind::Account, DisplayInformation::USER | DisplayInformation::OEM_USER) => {
                Box::new(self.accounts.users_by_name())
            }
            (DomainKind::Account, DisplayInformation::GROUP | DisplayInformation::OEM_GROUP) => {
                Box::new([self.accounts.domain_users_group()].into_iter())
            }
            _ => Box::new([].into_iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(count: u32) -> AccountList<'static> {
        Box::new((1..=count).map(|rid| ListEntry { rid, name: "twelve bytes" }))
    }

    fn rids(entries: &[Entry<'_>]) -> Vec<u32> {
        entries.iter().map(|entry| entry.rid).collect()
    }

    #[test]
    fn list_part_ends_where_the_room_ends() {
        let of = |rid, bytes| {
            let part = list_after(list(5), rid, bytes);
            (rids(&part.entries), part.has_more)
        };
        assert_eq!(of(0, u32::MAX), (vec![1, 2, 3, 4, 5], false));
        // An entry takes 48 bytes.
        assert_eq!(of(0, 96), (vec![1, 2], true));
        assert_eq!(of(2, 95), (vec![3], true));
        assert_eq!(of(2, 0), (vec![3], true), "one in any case");
        assert_eq!(of(4, 0), (vec![5], false));
        assert_eq!(of(5, 0), (vec![], false));
        assert_eq!(of(u32::MAX, 0), (vec![], false));
        let all = list_after(list(10_000), 0, u32::MAX);
        assert_eq!((all.entries.len(), all.has_more), (ACCOUNT_LIST_BYTES_MAX / 48, true));
    }

    #[test]
    fn display_list_starts_at_an_index_and_ends() {
        let of = |index, most, bytes| {
            let display = display_from(|| list(5), index, most, bytes);
            assert_eq!(display.total_available, 5 * 96);
            (rids(&display.entries), display.has_more)
        };
        assert_eq!(of(0, u32::MAX, u32::MAX), (vec![1, 2, 3, 4, 5], false));
        assert_eq!(of(1, 2, u32::MAX), (vec![2, 3], true));
        assert_eq!(of(3, 2, u32::MAX), (vec![4, 5], false));
        assert_eq!(of(3, 2, 1), (vec![4], true));
        assert_eq!(of(0, 0, 1), (vec![], true));
        assert_eq!(of(u32::MAX, 2, 1), (vec![], false));
    }
}
